#!/usr/bin/env bash
# Matrices in C++, with threads of BLAS.
octave-cli --norc --quiet --eval '
  rand("twister", 1); a = rand(400) + 20 * eye(400); x = a \ sum(a, 2);
  printf("solve %d\n", max(abs(x - 1)) < 1e-9);
  s = sprand(3000, 3000, 0.002) + 10 * speye(3000); printf("sparse %d\n", norm(s * (s \ ones(3000, 1)) - 1) < 1e-8);
  f = ifft(fft(1:65536)); printf("fft %d\n", max(abs(f - (1:65536))) < 1e-6);
  c = cell(1, 200); for i = 1:200; c{i} = zeros(100) + i; end; printf("cells %d\n", sum(cellfun(@(m) sum(m(:)), c)));
  exit(6);'
echo "octave $?"
