"""Allocates in many kinds of call stacks, each time another size, and prints for each what Python says of the stack: function and line,
innermost first."""

import asyncio
import functools
import json
import sys
import threading

size = 1 << 20
kept = []


def stack():
    frame, lines = sys._getframe(2), []
    while frame:
        code = frame.f_code
        if not code.co_filename.startswith("<frozen importlib"):
            lines.append(f"{code.co_qualname}:{frame.f_lineno}")
        frame = frame.f_back
    return lines


def told():
    print(size, json.dumps(stack()))


def make(text="in a function"):
    global size
    size += 4096
    told(); kept.append(bytearray(size))
    return text


make()
make(
    "in an expression of "
    + str(1)
    + make("several lines")
)
[make() for _ in range(2)]
{make(): make() for _ in range(2)}
list(map(lambda x: make(), range(2)))
sorted([3, 1], key=lambda x: make() and x)


class Body:
    make()

    def method(self):
        return make()

    @property
    def attribute(self):
        return make()

    @classmethod
    def alternative(cls):
        return make()

    def __enter__(self):
        make()

    def __exit__(self, *_):
        make()

    def __len__(self):
        return len(make())

    def __getattr__(self, name):
        make()
        return self.method


body = Body()
body.method()
body.attribute
Body.alternative()
body.whatever()
len(body)
with body:
    make()


def decorated(f):
    @functools.wraps(f)
    def wrapper(*args, **named):
        make()
        return f(*args, **named)

    return wrapper


@decorated
@functools.lru_cache
def inner(n, *, deep=True):
    return inner(n - 1, deep=deep) if n else make()


inner(5, deep=False)


def generator():
    make()
    got = yield make()
    yield from (make() for _ in range(2))
    try:
        yield got
    finally:
        make()


for _ in generator():
    make()
g = generator()
next(g)
g.send(make())
g.close()


def failing():
    try:
        raise ValueError(make())
    except ValueError:
        make()
        raise
    finally:
        make()


try:
    failing()
except ValueError:
    make()


def far():
    make()


























































































    # Lines so far apart that the table of lines has other entries for them.
    make()
    for i in range(2):
        if i:
            make()
        else:
            make()
    return make()


far()


async def step(n):
    make()
    await asyncio.sleep(0)
    make()
    return n


async def steps():
    await asyncio.gather(step(1), step(2))
    async for _ in numbers():
        make()


async def numbers():
    yield make()


asyncio.run(steps())
exec("\n\nmake()\ndef f():\n\n    make()\nf()\n")
exec(compile("def f():\n  return make()\n\n\nf()", "other.py", "exec"))
functools.reduce(lambda a, b: make(), [1, 2, 3])
for _ in range(100):
    # Long enough for the interpreter to have specialised it.
    make()
for target in (make, body.method, lambda: inner(1)):
    thread = threading.Thread(target=target)
    thread.start()
    thread.join()
