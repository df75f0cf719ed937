"""Linear algebra, sorting and strings in numpy; prints checksums that do not depend on the allocator."""

import numpy as np

rng = np.random.default_rng(42)
a = rng.integers(0, 100, size=(600, 600)).astype(float)
b = a.T.copy()
for _ in range(6):
    c = a @ b
    b = np.roll(c, 1, axis=0) % 97
print("product", int(b.sum()))

big = rng.integers(0, 1 << 40, size=4_000_000)
for _ in range(3):
    big = np.sort(big ^ (big >> 7))
print("sorted", bool((np.diff(big) >= 0).all()), int(big.sum() % (1 << 31)))

grid = np.zeros((1500, 1500))
grid[0] = 1024
for _ in range(40):
    grid[1:-1, 1:-1] = (grid[:-2, 1:-1] + grid[2:, 1:-1] + grid[1:-1, :-2] + grid[1:-1, 2:]) / 4
print("grid", f"{grid.sum():.6f}")

words = [str(i) * (i % 50) for i in range(50_000)]
table = {w: len(w) for w in words}
print("words", len(table), sum(table.values()))
