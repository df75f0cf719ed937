#!/usr/bin/env bash
# Linear algebra, transforms and sparse matrices, with the threads of BLAS.
/usr/bin/python3 - <<'PYTHON'
import hashlib
import numpy as np
import scipy.fft, scipy.linalg, scipy.sparse as sparse, scipy.sparse.linalg, scipy.spatial

random = np.random.default_rng(1)
a = random.standard_normal((600, 600))
x = scipy.linalg.solve(a, a.sum(axis=1))
print("solve", np.allclose(x, 1.0))
print("svd", round(float(scipy.linalg.svdvals(a)[:3].sum()), 6))
signal = random.standard_normal(1 << 18)
print("fft", np.allclose(scipy.fft.irfft(scipy.fft.rfft(signal)), signal))
matrix = sparse.random(4000, 4000, 0.002, random_state=2, format="csr") + sparse.identity(4000) * 10
b = matrix @ np.ones(4000)
print("sparse", np.allclose(sparse.linalg.spsolve(matrix.tocsc(), b), 1.0))
tree = scipy.spatial.cKDTree(random.random((30000, 3)))
print("tree", hashlib.sha256(tree.query(random.random((3000, 3)))[1].astype("<i8").tobytes()).hexdigest())
data = (random.random((2000, 2000)) * 1000).astype("<i4")
print("sort", hashlib.sha256(np.sort(data, axis=0).tobytes()).hexdigest())
PYTHON
