#!/usr/bin/env bash
# A compiler with LLVM, threads and, from some distributors, an allocator of its own.
cat > made.rs <<'RUST'
use std::collections::BTreeMap;
fn main() {
    let mut words: BTreeMap<String, Vec<u64>> = BTreeMap::new();
    for i in 0..100_000u64 {
        words.entry(format!("{}", i * 7919 % 1009)).or_default().push(i);
    }
    let longest = words.values().map(Vec::len).max();
    println!("{} {:?} {}", words.len(), longest, words["17"].iter().sum::<u64>());
}
RUST
rustc --edition 2021 -O -C codegen-units=4 made.rs
echo "rustc $?"
sha256sum made
./made
echo 'fn main() { let x: u32 = "no"; }' > wrong.rs
rustc wrong.rs
echo "wrong $?"
