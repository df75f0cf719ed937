"""The table of bench/compilers/static, from what it has left in the current folder."""
import json
import math
import re
import sys


def ranks(values):
    """Ranks from 1; equal values share their mean rank."""
    order = sorted(range(len(values)), key=lambda i: values[i])
    out, at = [0.0] * len(values), 0
    while at < len(order):
        end = at
        while end < len(order) and values[order[end]] == values[order[at]]:
            end += 1
        for k in order[at:end]:
            out[k] = (at + end + 1) / 2
        at = end
    return out


def spearman(a, b):
    a, b = ranks(a), ranks(b)
    mean = (len(a) + 1) / 2
    over = sum((x - mean) * (y - mean) for x, y in zip(a, b))
    under = math.sqrt(sum((x - mean) ** 2 for x in a) * sum((y - mean) ** 2 for y in b))
    return over / under if under else None


platform, policies, programs = sys.argv[1], sys.argv[2].split(","), sys.argv[3:]
print(f"on {platform}, a quarter of the footprint fast\n")
print(f"| program | sites | rank correlation | first-touch |{''.join(f' static, `{p}` |' for p in policies)} `exact` by a profile | of its gain, the best static one |")
print(f"|:--|--:|--:|--:|{'--:|' * len(policies)}--:|--:|")
ratios = []


def read(name):
    one = json.load(open(name))
    return one[0] if isinstance(one, list) else one


for program in programs:
    time = {r["placement"]: r["time"] for r in read(f"{program}.json")["runs"]}
    static = [read(f"{program}.{policy}.json")["guest_ns"] for policy in policies]
    profile = json.load(open(f"{program}.profile.json"))
    measured = {s["site"]["id"]: s["load_misses"] + s["store_misses"] for s in profile["sites"] if s["peak"] >= 65536}
    # What is foreseen is the same whatever the policy.
    plan = open(f"{program}.{policies[0]}.toml").read().split("[[site]]")[1:]
    foreseen = {re.search(r'id = "(\w+)"', s)[1]: float(re.search(r"miss_share = (\S+)", s)[1]) for s in plan}
    ids = sorted(measured)
    r = spearman([measured[i] for i in ids], [foreseen.get(i, 0.0) for i in ids]) if len(ids) > 2 else None
    touch, exact = time["first-touch"], time["plan exact"]
    gain = touch - exact
    part = f"{(touch - min(static)) / gain:.0%}" if gain > 0.05 * touch else ""
    ratios.append([t / touch for t in (*static, exact)])
    known = sum(1 for i in ids if i in foreseen)
    shown = " | ".join(f"{ratio:.2f}" for ratio in ratios[-1])
    print(f"| {program} | {known} of {len(ids)} | {'' if r is None else f'{r:.2f}'} | {touch / 1e6:.0f} ms | {shown} | {part} |")
mean = [math.exp(sum(map(math.log, column)) / len(ratios)) for column in zip(*ratios)]
print(f"| *geometric mean* | | | |{''.join(f' **{m:.2f}** |' for m in mean)} |")
