"""What Python can do to its own call stack while it allocates; the output does not depend on the allocator."""

import asyncio
import ctypes
import gc
import os
import signal
import sys
import threading

PAGE = 8192


def block(n=PAGE):
    return bytearray(n)


def deep(n):
    return len(block()) + (deep(n - 1) if n else 0)


def counted(n):
    for i in range(n):
        yield len(block(PAGE + i))


def nested(n):
    if n:
        yield from nested(n - 1)
    yield len(block())


def failing(n):
    kept = block()
    try:
        if n == 0:
            raise ValueError(len(block()))
        return failing(n - 1)
    finally:
        kept.extend(block())


class Finalised:
    def __del__(self):
        seen.append(len(block()))


seen = []
print("recursion", deep(900))
sys.setrecursionlimit(20_000)
print("deeper", deep(5_000))
print("generators", sum(counted(500)), sum(nested(200)))

total = 0
for i in range(300):
    try:
        failing(i % 40)
    except ValueError as error:
        total += error.args[0]
print("exceptions", total)

for i in range(200):
    cycle = Finalised()
    cycle.own = cycle
    del cycle
gc.collect()
print("finalisers", len(seen))

# Code that comes and goes, at the same addresses and of the same name, with other lines each time.
total = 0
for i in range(3_000):
    names = {"block": block}
    exec("\n" * (i % 50) + "def made():\n    return block()\n" + "\n" * (i % 7) + "kept = made(); n = len(kept)", names)
    total += names["n"]
print("exec", total)
functions = [eval(f"lambda: block({PAGE + i})") for i in range(1_000)]
print("lambdas", sum(len(f()) for f in functions))
odd = {"block": block}
exec(compile("def größe():\n    return block()\nn = len(größe())", "/tmp/\udcff/模块.py", "exec"), odd)
print("names", odd["n"])
long = {"block": block}
exec(compile(f"def {'n' * 3000}():\n    return block()\nn = len({'n' * 3000}())", "/long" * 1000, "exec"), long)
print("long names", long["n"])


async def task(n):
    kept = [block()]
    for i in range(n):
        await asyncio.sleep(0)
        kept.append(block(PAGE + i))
    return len(kept)


async def tasks():
    return sum(await asyncio.gather(*(task(i % 20) for i in range(100))))


print("coroutines", asyncio.run(tasks()))

# C calls back into Python.
qsort = ctypes.CDLL(None).qsort
compare_type = ctypes.CFUNCTYPE(ctypes.c_int, ctypes.POINTER(ctypes.c_int), ctypes.POINTER(ctypes.c_int))
calls = 0


def compare(a, b):
    global calls
    calls += 1
    block()
    return a[0] - b[0]


numbers = (ctypes.c_int * 200)(*(i * 7919 % 200 for i in range(200)))
qsort(numbers, 200, ctypes.sizeof(ctypes.c_int), compare_type(compare))
print("callbacks", calls > 200, list(numbers) == list(range(200)))

# C that allocates without the lock, in the first thread and in others.
libc = ctypes.CDLL(None)
libc.malloc.restype = ctypes.c_void_p
libc.malloc.argtypes = [ctypes.c_size_t]
libc.free.argtypes = [ctypes.c_void_p]
results = []


def work(n):
    got = 0
    for i in range(n):
        at = libc.malloc(PAGE + i)
        got += len(block()) + deep(5) + sum(counted(3))
        libc.free(at)
    results.append(got)


work(200)
threads = [threading.Thread(target=work, args=(400,)) for _ in range(6)]
for t in threads:
    t.start()
for t in threads:
    t.join()
print("threads", sum(results))

ticks = 0


def tick(*_):
    global ticks
    ticks += len(block()) // PAGE


signal.signal(signal.SIGALRM, tick)
signal.setitimer(signal.ITIMER_REAL, 0.001, 0.001)
total = 0
while ticks < 50:
    total += deep(3) > 0
signal.setitimer(signal.ITIMER_REAL, 0)
print("signals", total > 0)

for n in range(3):
    child = os.fork()
    if child == 0:
        ok = deep(50) == 51 * PAGE and sum(counted(10)) == 10 * PAGE + 45
        thread = threading.Thread(target=work, args=(10,))
        thread.start()
        thread.join()
        os._exit(7 if ok else 1)
    print("fork", os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]))


def in_trace(frame, event, arg):
    block()
    return in_trace


sys.settrace(in_trace)
print("traced", deep(20))
sys.settrace(None)
# A thread that is left alone when the interpreter ends.
threading.Thread(target=work, args=(10**9,), daemon=True).start()
sys.stdout.flush()
if len(sys.argv) == 1:
    os.execv(sys.executable, [sys.executable, __file__, "again"])
