"""The tables of bench/h2m/run, from its cells, and whether the paper's winners win here.

The paper's are as its text (section 5.3) says of each figure; the figures themselves have a curve for each number of threads. Two speedups that
differ by less than 3 % are one.
"""
import json, sys

folder, platforms, programs, changes = sys.argv[1:]
SAME = 1.03
ARRAYS = {"xsbench": ["index_grid", "unionized_energy", "nuclide_grid"]}
CHOSEN = {"first-served": "first-served", "prio": "prio", "prio-writes": "prio, writes counted"}

# Which array alone gains most (None: none gains), and with room for one and for two of them who is faster, "prio" or "first-served" (None: as fast).
# The paper has Ice Lake with Optane; Cascade Lake with Optane stands for it here.
PAPER = {
    ("optane", "dgemm-strided"): ("B", "prio", None),
    ("optane", "dgemm-linear"): ("B", "prio", None),
    ("optane", "matdot-strided"): ("C", "prio", "prio"),
    ("optane", "matdot-linear"): ("C", "prio", "prio"),
    ("optane", "xsbench"): ("nuclide_grid", "prio", "prio"),
    ("knl", "dgemm-strided"): (None, None, None),
    ("knl", "dgemm-linear"): (None, None, None),
    ("knl", "matdot-strided"): (None, None, None),
    ("knl", "matdot-linear"): ("C", "prio", "prio"),
    ("knl", "xsbench"): (None, None, None),
}


class Cell:
    def __init__(self, name):
        run = json.load(open(f"{folder}/{name}.json"))
        self.time, self.asked, self.free = run["guest_ns"], run["fast"], run["fast_free"]
        of = {}
        for line in open(f"{folder}/{name}.where"):
            if line.startswith("h2m: "):
                _, array, size, _, fast, *_ = line.split()
                size, fast = int(size), int(fast)
                before = of.get(array, (0, 0))
                of[array] = (before[0] + size, before[1] + fast)
        self.fast = {array: fast / size for array, (size, fast) in of.items()}

    def where(self):
        """What of the arrays was in fast memory, read back when they ended."""
        there = [a if share > 0.99 else f"{share * 100:.0f} % of {a}" for a, share in self.fast.items() if share > 0.005]
        return ", ".join(there) or "nothing"


def winner(speedups, against=1.0):
    """The fastest, or None where it is as fast as what it is to beat."""
    best = max(speedups, key=speedups.get)
    return best if speedups[best] > against * SAME else None


options = "".join(f" --{key} {value}" for key, value in (("platforms", platforms), ("programs", programs), ("set", changes)) if value)
print(f"""# The placements of H2M, by its own road

Made by `bench/h2m/run{options}`. Speedups against everything in slow memory, of simulated time.
""")
met = {"alone": [], "prio": [], "prio-writes": []}


def verdict(kind, expected, found):
    name = lambda w: w or "none"
    met[kind].append(expected == found)
    return "yes" if expected == found else f"**no**: {name(found)}, the paper {name(expected)}"


for platform in platforms.split(","):
    kind = "knl" if platform.startswith("knl") else "optane"
    alone, chosen = [], []
    for program in programs.split(","):
        name = f"{platform}-{program}"
        slow, fast = Cell(f"{name}-slow"), Cell(f"{name}-fast")
        speedup = lambda cell: slow.time / cell.time
        expected = PAPER[kind, program]
        single = {}
        for array in ARRAYS.get(program, ["A", "B", "C"]):
            cell = Cell(f"{name}-alone-{array}")
            assert cell.where() == array, f"{name}: not {array}, but {cell.where()} is in fast memory"
            single[array] = speedup(cell)
        order = sorted(single, key=single.get, reverse=True)
        alone.append(f"| {program} | " + ", ".join(f"{a} {single[a]:.2f}x" for a in order) + f" | {speedup(fast):.2f}x | {verdict('alone', expected[0], winner(single))} |")
        for room in (0, 1):
            cells = {c: Cell(f"{name}-{c}-{room}") for c in CHOSEN}
            by = {c: speedup(cell) for c, cell in cells.items()}
            verdicts = []
            for prio in ("prio", "prio-writes"):
                pair = {"first-served": by["first-served"], "prio": by[prio]}
                # The same arrays in fast memory are one placement, whatever the caches make of it.
                same = cells["first-served"].where() == cells[prio].where()
                found = None if same else winner(pair, min(pair.values()))
                verdicts.append(verdict(prio, expected[1 + room], found))
            shown = " | ".join(f"{speedup(c):.2f}x {c.where()}" for c in cells.values())
            chosen.append(f"| {program} | {cells['prio'].free / 2**20:.1f} MiB | {shown} | {verdicts[0]} | {verdicts[1]} |")
    print(f"""## {platform}

One array alone in fast memory, the best first (Fig. 9):

| program | speedups | all in fast memory | the paper's winner |
|:--|:--|--:|:--|""")
    print("\n".join(alone))
    print(f"""
With room for one of the arrays and for two, and what of them was then in fast memory (Fig. 10). The paper's winner, first-served or prio, with either of
the two strategies for prio:

| program | fast | {" | ".join(CHOSEN.values())} | the paper's winner | writes counted |
|:--|--:|:--|:--|:--|:--|:--|""")
    print("\n".join(chosen), "\n")
share = lambda kind: f"{sum(met[kind])} of {len(met[kind])}"
print(f"The paper's winners: {share('alone')} of Fig. 9; of Fig. 10 {share('prio')} by prio, and {share('prio-writes')} with writes counted.")
