"""Tests of the Python binding, for any number of tiers: `PYTHONPATH=. python3 -m unittest test_hearth`.

The library is found as the package finds it. The recorded profile needs the program `hearth`: environment variable HEARTH, else
the repository's target/release, else PATH.
"""

import asyncio
import concurrent.futures
import contextlib
import ctypes
import gc
import importlib
import importlib.util
import multiprocessing
import os
import pickle
import shutil
import sqlite3
import subprocess
import sys
import tempfile
import threading
import unittest
from pathlib import Path
from unittest import mock

import numpy

import hearth
from hearth import ErrorCode, HearthError
from hearth._library import Trait, library
from hearth._profile import _NEWEST

PAGE = 4096
MIB = 1 << 20
HERE = Path(__file__).resolve().parent
SPACES = ("high-bandwidth", "low-latency", "large-capacity")
needs_pandas = unittest.skipUnless(importlib.util.find_spec("pandas"), "pandas is not installed")
multiarray = importlib.import_module(
    "numpy.core.multiarray" if numpy.__version__[:2] == "1." else "numpy._core.multiarray"
)
get_handler_name = multiarray.get_handler_name


def governed(array=None):
    """Whether an array is of Hearth's handler; without one, whether new ones are."""
    return (get_handler_name() if array is None else get_handler_name(array)) == "hearth"


def python(code, **environment):
    """Runs code in a process of its own, with its output as text; variables of None are unset."""
    variables = {**os.environ, "PYTHONPATH": str(HERE), "PYTHONDONTWRITEBYTECODE": "1", **environment}
    variables = {name: value for name, value in variables.items() if value is not None}
    return subprocess.run([sys.executable, "-c", code], env=variables, capture_output=True, text=True, timeout=300)


class Case(unittest.TestCase):
    @contextlib.contextmanager
    def refused(self, code, *words):
        with self.assertRaises(HearthError) as caught:
            yield
        self.assertEqual(caught.exception.code, code, caught.exception)
        for word in words:
            self.assertIn(word, str(caught.exception))

    def succeeds(self, ended):
        self.assertEqual(ended.returncode, 0, ended.stderr)
        return ended.stdout

    def folder(self):
        folder = tempfile.TemporaryDirectory()
        self.addCleanup(folder.cleanup)
        return Path(folder.name)

    def lies_in(self, array, tier):
        """All of an array of whole pages is in this tier."""
        found = hearth.residency(array)
        self.assertEqual(found.tiers.pop(tier), -(-array.nbytes // PAGE) * PAGE, found)
        self.assertEqual((sum(found.tiers.values()), found.elsewhere, found.absent), (0, 0, 0))


class Machine(Case):
    def test_tiers_are_described(self):
        tiers = hearth.tiers()
        self.assertGreaterEqual(len(tiers), 1)
        for tier in tiers:
            self.assertTrue(tier.name)
            self.assertGreater(tier.capacity, tier.free)
            self.assertGreater(tier.free, 0)
            self.assertTrue(tier.nodes)
            for figure in (tier.latency_ns, tier.read_bandwidth, tier.write_bandwidth):
                self.assertTrue(figure is None or figure > 0)
        nodes = [node for tier in tiers for node in tier.nodes]
        self.assertEqual(len(nodes), len(set(nodes)))

    def test_spaces_are_tiers(self):
        for space in SPACES:
            self.assertIn(hearth.tier_of_space(space), range(len(hearth.tiers())))
        for index, tier in enumerate(hearth.tiers()):
            self.assertEqual(hearth.tier_of_space(index), index)
            self.assertEqual(hearth.tier_of_space(tier.name), index)

    def test_other_spaces_are_refused(self):
        for space in ("fast", "", "Low-Latency", -1, len(hearth.tiers()), 8, 1 << 40):
            with self.subTest(space), self.refused(ErrorCode.TIER):
                hearth.tier_of_space(space)
        with self.refused(ErrorCode.TIER, "'fast'", "low-latency", hearth.tiers()[0].name):
            hearth.tier_of_space("fast")
        for space in (1.0, None, b"low-latency"):
            with self.subTest(space), self.assertRaises(TypeError):
                hearth.tier_of_space(space)


class Traits(Case):
    ALL = dict(
        space="low-latency",
        required=False,
        pattern="strided",
        stride=64,
        frequency=1e6,
        mode="read-write",
        origin="many-threads",
        importance=3,
        alignment=1 << 16,
        partition="interleave",
        weight=30,
        rest="large-capacity",
    )

    def tearDown(self):
        self.assertFalse(governed())

    def test_arrays_of_the_block_are_governed(self):
        before = numpy.ones(MIB)
        with hearth.traits(space="large-capacity"):
            self.assertTrue(governed())
            inside = numpy.ones(MIB)
            small = numpy.arange(10)
        after = numpy.ones(MIB)
        self.assertEqual([governed(a) for a in (before, inside, small, after)], [False, True, True, False])
        self.assertEqual((inside.sum(), small.sum()), (MIB, 45))
        self.lies_in(inside, hearth.tiers()[hearth.tier_of_space("large-capacity")].name)

    def test_every_tier_can_be_required(self):
        for index, tier in enumerate(hearth.tiers()):
            for space in (index, tier.name):
                with hearth.traits(space=space, required=True):
                    array = numpy.full(4 * MIB, 7, dtype="u1")
                self.lies_in(array, tier.name)

    def test_all_traits_are_taken(self):
        with hearth.traits(**self.ALL):
            array = numpy.zeros(MIB, dtype="u1")
        self.assertTrue(governed(array))
        self.assertEqual(array.ctypes.data % self.ALL["alignment"], 0)
        words = dict(
            pattern=("linear", "strided", "random"),
            mode=("read-only", "write-only", "read-write"),
            origin=("one-thread", "many-threads"),
            partition=("whole", "split", "interleave"),
        )
        for trait, values in words.items():
            for value in values:
                with self.subTest(trait, value=value), hearth.traits(space=0, **{trait: value}):
                    self.assertEqual(numpy.ones(5000).sum(), 5000)
        for alignment in (1, 4096, 2 << 20):
            self.assertEqual(hearth.empty(100, alignment=alignment).ctypes.data % alignment, 0)
        self.assertTrue(governed(hearth.empty(10)))

    def test_pairs_are_those_of_the_header(self):
        from hearth._traits import pairs

        keys = pairs(**{**self.ALL, "space": 0, "rest": 0, "required": True})
        self.assertEqual(
            keys,
            ((1, 16), (3, 3), (4, 1000000), (5, 2), (6, 2), (7, 64), (8, 3), (9, 65536), (10, 3), (11, 30), (12, 16)),
        )
        self.assertEqual(pairs(space="high-bandwidth"), ((2, 1),))
        self.assertEqual(
            pairs(space="large-capacity", partition="split", rest="low-latency"), ((2, 3), (10, 2), (12, 2))
        )

    def test_divided_between_tiers(self):
        tiers = hearth.tiers()
        for partition in ("split", "interleave"):
            array = hearth.empty(64 * MIB, "u1", space=0, partition=partition, weight=25, rest=len(tiers) - 1)
            array[:] = 1
            found = hearth.residency(array)
            if len(tiers) > 1:
                self.assertAlmostEqual(found.tiers[tiers[0].name] / array.nbytes, 0.25, delta=0.04)
            self.assertEqual(sum(found.tiers.values()), array.nbytes)

    def test_refused_before_anything_is_allocated(self):
        conflicts = (
            dict(stride=8),
            dict(pattern="linear", stride=8),
            dict(space=0, weight=50),
            dict(space=0, rest=0),
            dict(partition="split"),
        )
        for traits in conflicts:
            with self.subTest(traits), self.refused(ErrorCode.CONFLICT, "contradict"):
                hearth.traits(**traits)
        for traits in (dict(alignment=3), dict(alignment=1 << 31), dict(space=0, partition="split", weight=100)):
            with self.subTest(traits), self.refused(ErrorCode.TRAIT):
                hearth.traits(**traits)
        for traits in (
            dict(space="hot"),
            dict(space=7 if len(hearth.tiers()) < 8 else 8),
            dict(space=0, partition="split", rest="hot"),
        ):
            with self.subTest(traits), self.refused(ErrorCode.TIER):
                hearth.traits(**traits)
        for traits in (
            dict(pattern="Linear"),
            dict(mode="r"),
            dict(importance=-1),
            dict(frequency=1e30),
            dict(required=True),
        ):
            with self.subTest(traits), self.assertRaises(ValueError):
                hearth.traits(**traits)
        for traits in (dict(importance="high"), dict(stride=1.5), dict(patern="random")):
            with self.subTest(traits), self.assertRaises(TypeError):
                hearth.traits(**traits)
            with self.subTest(traits), self.assertRaises(TypeError):
                hearth.empty(1, **traits)

    def test_blocks_nest_and_exceptions_leave_them(self):
        with self.assertRaises(ZeroDivisionError), hearth.traits(space=0):
            outer = get_handler_name()
            with self.assertRaises(KeyError), hearth.traits(pattern="random"):
                raise KeyError
            self.assertEqual(get_handler_name(), outer)
            with self.refused(ErrorCode.CONFLICT), hearth.traits(stride=1):
                self.fail("entered")
            self.assertEqual(get_handler_name(), outer)
            1 / 0

    def test_decorator(self):
        @hearth.traits(space="low-latency")
        def make(n):
            return numpy.ones(n)

        self.assertEqual([governed(make(n)) for n in (5, 5000)], [True, True])
        self.assertFalse(governed())

    def test_one_block_for_each_call(self):
        first = hearth.traits(space=0)
        with first:
            inner = numpy.ones(3)
        with self.assertRaises((RuntimeError, AttributeError)), first:
            self.fail("one block for each call")
        self.assertTrue(governed(inner))

    def test_threads_and_tasks_are_apart(self):
        with hearth.traits(space=0), concurrent.futures.ThreadPoolExecutor(1) as pool:
            # Python 3.14 may hand a context on to threads.
            if not getattr(sys.flags, "thread_inherit_context", 0):
                self.assertFalse(pool.submit(governed).result())

        async def task(inside):
            if not inside:
                await asyncio.sleep(0)
                return governed()
            with hearth.traits(space=0):
                await asyncio.sleep(0.01)
                return governed()

        async def both():
            return await asyncio.gather(task(True), task(False))

        self.assertEqual(asyncio.run(both()), [True, False])

    def test_many_threads(self):
        wrong = []

        def work(seed):
            rng = numpy.random.default_rng(seed)
            kept = []
            for turn in range(300):
                n = int(rng.integers(1, 20_000))
                with hearth.traits(space=SPACES[turn % 3]):
                    array = numpy.full(n, seed)
                    zeros = numpy.zeros(n, dtype="u1")
                if (array != seed).any() or zeros.any() or governed():
                    wrong.append((seed, turn))
                zeros[:] = 255
                kept.append(array)
                if len(kept) > 20:
                    kept.pop(turn % 20)
            # Freed by the main thread.
            return kept

        with concurrent.futures.ThreadPoolExecutor(4) as pool:
            kept = list(pool.map(work, range(4)))
        self.assertEqual(wrong, [])
        self.assertTrue(all((array == seed).all() for seed, arrays in enumerate(kept) for array in arrays))

    def test_zeros_are_zero_in_used_memory(self):
        for n in (1, 100, 5000, MIB, 9 * MIB):
            for _ in range(3):
                with hearth.traits(space="low-latency"):
                    array = numpy.zeros(n, dtype="u1")
                self.assertFalse(array.any(), n)
                array[:] = 255
                del array

    def test_resize_keeps_content_and_handler(self):
        with hearth.traits(space="low-latency"):
            array = numpy.arange(1000)
        foreign = numpy.arange(1000)
        for n in (2000, 300_000, 3_000_000, 50):
            array.resize(n, refcheck=False)
            with hearth.traits(space="low-latency"):
                foreign.resize(n, refcheck=False)
            same = min(n, 1000)
            self.assertTrue((array[:same] == numpy.arange(1000)[:same]).all())
            self.assertTrue((foreign[:same] == numpy.arange(1000)[:same]).all())
            self.assertTrue(governed(array))
            self.assertFalse(governed(foreign))
            array.resize(1000, refcheck=False)
            array[:], foreign = numpy.arange(1000), numpy.arange(1000)

    def test_kinds_of_arrays(self):
        with hearth.traits(space="large-capacity"):
            arrays = [
                numpy.empty(0),
                numpy.empty((3, 0, 2)),
                numpy.array(5),
                numpy.array(["a", "bcd"]),
                numpy.array([None, "x", [1]], dtype=object),
                numpy.zeros(3, dtype="M8[s]"),
                numpy.zeros(4, dtype=[("a", "i4"), ("b", "f8")]),
                numpy.ones((20, 30), order="F"),
            ]
            product = numpy.ones((200, 300)) @ numpy.ones((300, 100))
            joined = numpy.concatenate([product, product]) + 1
        self.assertTrue(all(governed(array) for array in [*arrays, product, joined]))
        self.assertTrue((joined == 301).all())
        self.assertEqual(arrays[4].tolist(), [None, "x", [1]])
        del arrays
        gc.collect()

    def test_room(self):
        with self.assertRaises(MemoryError), hearth.traits(space=0, required=True):
            numpy.empty(1 << 46, dtype="u1")
        self.assertFalse(governed())
        for required in (True, False):
            with self.assertRaises(MemoryError):
                hearth.empty(1 << 60, "u1", space=0, required=required)
        # What is preferred need not be there: slower tiers, and then the kernel, have to do.
        self.assertTrue(governed(hearth.empty(1 << 20, space=0)))

    def test_arrays_outlive_the_block_the_module_and_the_interpreter(self):
        code = """if True:
            import atexit, sys, numpy, hearth
            with hearth.traits(space="low-latency"):
                kept = [numpy.ones(n) for n in (1, 100, 100_000, 1_000_000)]
            class Cycle: pass
            cycle = Cycle(); cycle.own, cycle.array = cycle, kept[2]
            numpy.kept_too = kept[3]
            for name in [n for n in sys.modules if n.startswith("hearth")]: del sys.modules[name]
            del hearth
            import gc; gc.collect()
            atexit.register(lambda: kept.append(numpy.ones(5)))
            print(sum(a.sum() for a in kept))
        """
        self.assertEqual(self.succeeds(python(code)).strip(), "1100101.0")

    @unittest.skipUnless(hasattr(os, "fork"), "no fork here")
    def test_a_child_of_fork_goes_on(self):
        code = """if True:
            import os, numpy, hearth
            with hearth.traits(space="low-latency"):
                array = numpy.full(100_000, 3)
                child = os.fork()
                array += 1
                more = numpy.full(100_000, 2)
                assert (array == 4).all() and (more == 2).all()
                del array, more
            if child:
                assert os.waitpid(child, 0)[1] == 0
        """
        self.succeeds(python(code))

    def test_the_library_ends_what_is_not_its_own(self):
        from hearth._numpy import _Context

        libc = ctypes.CDLL(None)
        libc.malloc.restype, libc.malloc.argtypes = ctypes.c_void_p, [ctypes.c_size_t]
        traits = (Trait * 1)((2, 2))
        context = _Context(1, traits)
        at = ctypes.addressof(context)
        foreign = libc.malloc(100)
        ctypes.memset(foreign, 7, 100)
        foreign = library.hearth_handler_realloc(at, foreign, 100_000)
        self.assertEqual(ctypes.string_at(foreign, 100), b"\7" * 100)
        library.hearth_handler_free(at, foreign, 100_000)
        library.hearth_handler_free(at, None, 0)
        empty = library.hearth_handler_malloc(at, 0)
        self.assertTrue(empty)
        empty = library.hearth_handler_realloc(at, empty, 0)
        self.assertTrue(empty)
        library.hearth_handler_free(at, empty, 0)
        self.assertIsNone(library.hearth_handler_malloc(at, (1 << 64) - 1))
        self.assertIsNone(library.hearth_handler_calloc(at, 1 << 40, 1 << 40))


class Empty(Case):
    def test_shape_and_dtype(self):
        for shape, dtype in ((5, float), ((3, 4), "i4"), ([2], "u1"), ((), bool)):
            array = hearth.empty(shape, dtype, space="low-latency")
            self.assertEqual((array.shape, array.dtype), (numpy.empty(shape).shape, numpy.dtype(dtype)))
            self.assertTrue(governed(array))
        self.assertEqual(hearth.empty(3).dtype, float)
        self.assertFalse(governed())


class Residency(Case):
    def total(self, thing):
        found = hearth.residency(thing)
        self.assertEqual(list(found.tiers), [tier.name for tier in hearth.tiers()])
        return sum(found.tiers.values()) + found.elsewhere + found.absent

    def pages(self, low, high):
        return (-(-high // PAGE) - low // PAGE) * PAGE

    def test_views(self):
        array = numpy.ones((64, 1024))
        start, row = array.ctypes.data, 8192
        views = (
            (array, 0, 64 * row),
            (array[3:5], 3 * row, 5 * row),
            (array[::-1], 0, 64 * row),
            (array[:, ::-2], 8, 64 * row),
            (array.T, 0, 64 * row),
            (array[10:4:-2, 100:200], 6 * row + 800, 10 * row + 1600),
        )
        for view, low, high in views:
            self.assertEqual(self.total(view), self.pages(start + low, start + high))
        self.assertEqual(self.total(numpy.broadcast_to(numpy.ones(1), (1000, 1000))), PAGE)
        self.assertEqual(self.total(array[0:0]), 0)
        self.assertGreaterEqual(self.total(numpy.array(1.0)), PAGE)

    def test_what_no_buffer_can_be(self):
        for array in (
            numpy.zeros(3000, dtype="M8[ns]"),
            numpy.array([None] * 3000, dtype=object),
            numpy.array(["abc"] * 3000),
        ):
            self.assertEqual(self.total(array), self.pages(array.ctypes.data, array.ctypes.data + array.nbytes))

    def test_buffers(self):
        import array
        import mmap

        with mmap.mmap(-1, 16 * PAGE) as mapped:
            self.assertEqual(hearth.residency(mapped).absent, 16 * PAGE)
            mapped[: 4 * PAGE] = b"x" * 4 * PAGE
            self.assertEqual(hearth.residency(mapped).absent, 12 * PAGE)
            self.assertEqual(self.total(memoryview(mapped)[2 * PAGE : 5 * PAGE]), 3 * PAGE)
            self.assertEqual(self.total(memoryview(mapped)[5 * PAGE : 2 * PAGE : -1]), 4 * PAGE)
        growing = bytearray(100_000)
        self.assertGreaterEqual(self.total(growing), 100_000)
        growing.extend(b"not held any more")
        for buffer in (
            b"x" * 100_000,
            array.array("d", [0.0] * 10_000),
            (ctypes.c_int * 10_000)(),
            memoryview(b"x" * 9999)[::3],
        ):
            self.assertGreaterEqual(self.total(buffer), memoryview(buffer).nbytes // PAGE * PAGE)
        self.assertEqual(self.total(b""), 0)
        self.assertGreaterEqual(self.total(ctypes.c_double()), PAGE)
        for other in (5, "text", [1, 2], None):
            with self.subTest(other), self.assertRaises(TypeError):
                hearth.residency(other)

    def test_untouched_is_absent(self):
        array = numpy.empty(64 * MIB, dtype="u1")
        self.assertGreater(hearth.residency(array).absent, 32 * MIB)
        array[:] = 1
        self.assertEqual(hearth.residency(array).absent, 0)


class Moves(Case):
    def test_migrate_follows_update(self):
        tiers = hearth.tiers()
        array = hearth.empty(8 * MIB, "u1", space=0, required=True)
        array[:] = 5
        address = array.ctypes.data
        for tier in [*reversed(tiers), *tiers]:
            hearth.update(array, space=tier.name)
            moves = tiers.index(tier) != self.tier_now(array)
            self.assertEqual(hearth.migrate(), array.nbytes if moves else 0)
            self.lies_in(array, tier.name)
        self.assertEqual(array.ctypes.data, address)
        self.assertTrue((array == 5).all())
        self.assertEqual(hearth.migrate(), 0)

    def tier_now(self, array):
        return [bytes > 0 for bytes in hearth.residency(array).tiers.values()].index(True)

    def test_views_stand_for_their_array(self):
        array = hearth.empty((512, 512), space="low-latency")
        for view in (array, array[3:], array.T, array[::-1, 5:10], array[5].view("u1")[:0], memoryview(array)):
            hearth.update(view, space="large-capacity", importance=2)
            hearth.name(view, "table of the tests")
        hearth.migrate()

    def test_refused(self):
        own = hearth.empty(MIB, space=0)
        for foreign in (numpy.ones(MIB), b"x" * 10_000, memoryview(own)[5:]):
            with self.refused(ErrorCode.FOREIGN):
                hearth.update(foreign, space=0)
            with self.refused(ErrorCode.FOREIGN):
                hearth.name(foreign, "foreign")
        small = hearth.empty(10, space=0)
        with self.refused(ErrorCode.SMALL):
            hearth.update(small, space=0)
        with self.refused(ErrorCode.SMALL):
            hearth.name(small, "small")
        with self.refused(ErrorCode.CONFLICT):
            hearth.update(own, stride=3)
        with self.assertRaises(TypeError):
            hearth.update(own, tier=3)
        with self.assertRaises(TypeError):
            hearth.update([1, 2], space=0)

    def test_what_is_required_and_too_large_says_so(self):
        if len(hearth.tiers()) < 2:
            # A tier that has the pages already has room for them, and there is no other.
            array = hearth.empty(MIB, "u1", space=0)
            hearth.update(array, space=0, required=True)
            self.assertEqual(hearth.migrate(), 0)
            return
        fast = hearth.tiers()[0]
        array = hearth.empty(fast.capacity, "u1", space=1)
        hearth.update(array, space=0, required=True)
        with self.refused(ErrorCode.ROOM, "0 bytes were moved"):
            hearth.migrate()


class Marks(Case):
    def test_marks_need_no_recorder(self):
        hearth.phase("solve")
        hearth.phase("lösen " * 20)
        with hearth.loop("steps"):
            hearth.phase("inside")
        hearth.phase_uses("inside", b"x" * 10000)
        hearth.phase_uses("inside", b"")
        with self.assertRaises(KeyError), hearth.loop("steps"):
            raise KeyError
        threading.Thread(target=hearth.phase, args=("elsewhere",)).start()

    def test_names_are_checked(self):
        array = hearth.empty(MIB, space=0)
        hearth.name(array, "n" * 200)
        for name in ("", "n" * 201, "ö" * 101):
            for call in (
                hearth.phase,
                lambda name: hearth.name(array, name),
                lambda name: hearth.phase_uses(name, array),
                lambda name: hearth.loop(name).__enter__(),
            ):
                with self.subTest(name), self.refused(ErrorCode.ARGUMENT):
                    call(name)
        with self.assertRaises(ValueError):
            hearth.phase("a\0b")
        with self.assertRaises(TypeError):
            hearth.phase(b"bytes")


class Errors(Case):
    def test_what_an_error_says(self):
        error = HearthError(ErrorCode.ROOM, "40 GiB")
        self.assertIsInstance(error, OSError)
        self.assertIn("no room", str(error))
        self.assertIn("(40 GiB)", str(error))
        self.assertEqual((error.code, error.errno), (4, None))
        texts = {str(HearthError(code)) for code in ErrorCode}
        self.assertEqual(len(texts), len(ErrorCode))

    def test_errors_travel_between_processes(self):
        error = pickle.loads(pickle.dumps(HearthError(ErrorCode.KERNEL, "mbind", 1)))
        self.assertEqual((error.code, error.detail, error.errno), (9, "mbind", 1))
        with multiprocessing.get_context("spawn").Pool(1) as pool, self.refused(ErrorCode.TIER):
            pool.apply(hearth.tier_of_space, ("nowhere",))

    def test_the_kernels_word_is_told(self):
        from hearth import _errors

        ctypes.set_errno(1)
        with self.assertRaises(HearthError) as caught:
            _errors.check(ErrorCode.KERNEL)
        self.assertEqual((caught.exception.errno, caught.exception.detail), (1, os.strerror(1)))


class Library(Case):
    """How the library is found. Its path is the one that these tests use."""

    PATH = next(
        line.split()[-1] for line in Path("/proc/self/maps").read_text().splitlines() if "libhearth_api" in line
    )

    def copied(self, *parts, into="."):
        """A copy of the package in this folder of a fresh one, which has the library there. Gives the path for Python."""
        folder = self.folder()
        shutil.copytree(HERE / "hearth", folder / into / "hearth", ignore=shutil.ignore_patterns("__pycache__"))
        if parts:
            os.symlink(self.PATH, folder.joinpath(*parts))
        return str(folder / into)

    USE = "import hearth; print(len(hearth.tiers()))"

    def test_found_beside_the_package(self):
        for parts in (("hearth", "libhearth_api.so.0"), ("libhearth_api.so",), ("hearth", "libhearth_api.so")):
            folder = self.copied(*parts)
            self.succeeds(python(self.USE, PYTHONPATH=folder, HEARTH_API_LIBRARY=None, LD_LIBRARY_PATH=None))

    def test_found_where_both_are_installed(self):
        for into in ("lib/python3.11/site-packages", "lib/python3/dist-packages"):
            folder = self.copied("lib", "libhearth_api.so.0", into=into)
            self.succeeds(python(self.USE, PYTHONPATH=folder, HEARTH_API_LIBRARY=None, LD_LIBRARY_PATH=None))

    def test_found_by_the_loader(self):
        folder = self.folder()
        os.symlink(self.PATH, folder / "libhearth_api.so.0")
        self.succeeds(python(self.USE, PYTHONPATH=self.copied(), HEARTH_API_LIBRARY="", LD_LIBRARY_PATH=str(folder)))

    def test_the_variable_comes_first(self):
        folder = self.copied("hearth", "libhearth_api.so.0")
        ended = python(self.USE, PYTHONPATH=folder, HEARTH_API_LIBRARY="/nowhere/libhearth_api.so")
        self.assertIn("ImportError: hearth cannot load its library (/nowhere/libhearth_api.so", ended.stderr)
        self.assertIn("set HEARTH_API_LIBRARY to the path of libhearth_api.so", ended.stderr)
        self.assertEqual(ended.returncode, 1)

    def test_a_library_of_another_kind(self):
        libc = next(
            line.split()[-1]
            for line in Path("/proc/self/maps").read_text().splitlines()
            if "libc.so" in line or "libc-" in line
        )
        self.assertIn("has no function hearth_", python(self.USE, HEARTH_API_LIBRARY=libc).stderr)


class Missing(Case):
    """What is missing is said when it is needed, and not before."""

    def test_without_numpy(self):
        code = """if True:
            import sys
            sys.modules["numpy"] = None
            import hearth
            hearth.tiers(); hearth.residency(b"x" * 10000); hearth.phase("x"); hearth.migrate()
            for needs in (lambda: hearth.traits(space=0), lambda: hearth.empty(3)):
                try: needs()
                except ImportError as error: print(error)
        """
        said = self.succeeds(python(code)).splitlines()
        self.assertEqual(len(said), 2)
        for line in said:
            self.assertRegex(
                line, "^hearth.traits and hearth.empty need numpy, which cannot be imported .*: pip install"
            )

    def test_without_pandas(self):
        with mock.patch.dict(sys.modules, {"pandas": None}):
            for read in (hearth.read_profile, hearth.read_plan):
                with self.assertRaisesRegex(
                    ImportError, f"^hearth.{read.__name__} needs pandas, .*: pip install pandas"
                ):
                    read("whatever")

    def test_without_toml(self):
        module = "tomllib" if sys.version_info >= (3, 11) else "tomli"
        with mock.patch.dict(sys.modules, {module: None, "pandas": mock.Mock()}):
            with self.assertRaisesRegex(ImportError, f"needs {module}, .*: pip install tomli"):
                hearth.read_plan("whatever")


PLAN = """
version = 4
policy = "density"
command = ["lmp", "-in", "in.melt"]
platform = "bench"
threshold = "4 KiB"  # smallest allocation that was recorded
default_tier = "cxl"

[[tier]]
name = "dram"
nodes = [0]
budget = "12 GiB"

[[tier]]
name = "cxl"
nodes = [1]

[[site]]
id = "1a2b3c4d5e6f7081"
label = "grow (neigh_list.cpp:174)"
tier = "dram"
parts = "61/64"
rest = "cxl"
why = "dense"
miss_share = 0.412
peak = "1.5 MiB"
resident = 90_123_456
frames = [
    "lmp+0x1a2b3c  smalloc @ ./src/memory.cpp:42",
    "lmp+0x2b3c  main",
]

[[site]]
id = "0000000000000002"
kind = "static"
tier = "cxl"

[[phase]]
begins = "8d21c09a55fe0417"
number = 3
move = [
    { site = "0000000000000002", tier = "cxl" },  # f2
]

# end of plan
"""


@needs_pandas
class Plans(Case):
    def read(self, text):
        path = self.folder() / "plan.toml"
        path.write_text(text)
        return hearth.read_plan(path)

    def setUp(self):
        if sys.version_info < (3, 11) and importlib.util.find_spec("tomli") is None:
            self.skipTest("tomli is not installed")

    def test_sites(self):
        plan = self.read(PLAN)
        self.assertEqual(list(plan.id), ["1a2b3c4d5e6f7081", "0000000000000002"])
        self.assertEqual(list(plan.tier), ["dram", "cxl"])
        self.assertEqual(list(plan.kind), ["allocation", "static"])
        self.assertEqual((plan.parts[0], plan.rest[0], plan.parts[1]), ("61/64", "cxl", None))
        self.assertEqual((plan.peak[0], plan.resident[0], plan.miss_share[0]), (3 << 19, 90123456, 0.412))
        self.assertTrue(plan.peak.isna()[1])
        self.assertEqual(plan.frames[0][1], "lmp+0x2b3c  main")
        self.assertEqual((plan.attrs["default_tier"], plan.attrs["tier"][0]["budget"]), ("cxl", "12 GiB"))
        self.assertEqual(plan.attrs["phase"][0]["number"], 3)

    def test_no_sites(self):
        plan = self.read('version = 4\ndefault_tier = "dram"\n# end of plan\n')
        self.assertEqual((len(plan), plan.peak.dtype), (0, "Int64"))
        self.assertIn("tier", plan)

    def test_damaged(self):
        for text, said in (
            (PLAN.replace("# end of plan", ""), "is cut off"),
            (PLAN.replace("version = 4", "version = 5"), "install a newer one"),
            (PLAN.replace("version = 4", ""), "no version"),
            (PLAN.replace("[[tier]]", "[[tier"), "is no plan"),
            (PLAN.replace("1.5 MiB", "much"), "'much' is not a size"),
        ):
            with self.subTest(said), self.assertRaisesRegex(ValueError, said):
                self.read(text)
        with self.assertRaises(FileNotFoundError):
            hearth.read_plan("/nowhere/plan.toml")


@needs_pandas
class Profiles(Case):
    """Files that no recorder of today writes."""

    def written(self, version=4, application=0x48727468):
        path = self.folder() / "old file?#%41.hearth"
        with contextlib.closing(sqlite3.connect(path)) as database:
            database.executescript(f"""
                PRAGMA application_id = {application};
                PRAGMA user_version = {version};
                CREATE TABLE module (id INTEGER PRIMARY KEY, path TEXT NOT NULL, build_id TEXT NOT NULL);
                CREATE TABLE site (id INTEGER PRIMARY KEY, name TEXT, truncated INTEGER, kind TEXT);
                CREATE TABLE frame (site INTEGER, position INTEGER, module INTEGER, offset INTEGER);
                CREATE TABLE symbol (module INTEGER, offset INTEGER, level INTEGER, function TEXT, file TEXT, line INTEGER);
                CREATE TABLE object (id INTEGER PRIMARY KEY, process INTEGER, site INTEGER, tid INTEGER, addr INTEGER,
                                     size INTEGER, alloc_ns INTEGER, free_ns INTEGER, tier INTEGER, realloc INTEGER);
                CREATE TABLE estimate (site INTEGER PRIMARY KEY, load_misses REAL, store_misses REAL, pattern TEXT,
                                       stride INTEGER, samples INTEGER);
                INSERT INTO module VALUES (1, '/bin/app', '');
                INSERT INTO site VALUES (1, '000000000000000a', 0, 'allocation'), (2, '000000000000000b', 0, 'allocation');
                INSERT INTO frame VALUES (1, 0, 1, 256), (1, 1, NULL, -1), (2, 0, 1, 512);
                INSERT INTO symbol VALUES (1, 256, 0, 'inner', 'a.c', 7), (1, 256, 1, 'outer', 'a.c', 9);
                INSERT INTO object VALUES (1, 1, 1, 9, -4096, 100, 5, NULL, 0, 0), (2, 1, 1, 9, 4096, 300, 6, 8, 0, 0);
                INSERT INTO estimate VALUES (1, 5.0, 1.0, 'stream', 64, 12);
                """)
        return path

    def test_an_old_profile(self):
        profile = hearth.read_profile(self.written())
        sites = profile.sites
        self.assertEqual(list(sites.name), ["000000000000000a", "000000000000000b"])
        self.assertEqual(sites[["objects", "bytes", "largest"]].values.tolist(), [[2, 400, 300], [0, 0, 0]])
        self.assertEqual((sites.function[0], sites.file[0], sites.line[0], sites.samples[0]), ("inner", "a.c", 7, 12))
        self.assertTrue(sites.function.isna()[1] and sites.load_misses.isna()[1] and sites.stride.isna()[1])
        objects = profile.objects
        self.assertEqual(list(objects.addr), [2**64 - 4096, 4096])
        self.assertTrue(objects.free_ns.isna()[0])
        self.assertEqual(objects.free_ns[1], 8)
        self.assertEqual(list(objects.site_name), ["000000000000000a"] * 2)
        frames = profile.frames
        self.assertEqual(list(frames[frames.site == 1].function.dropna()), ["inner", "outer"])
        self.assertEqual(frames[frames.position == 1].offset.tolist(), [2**64 - 1])
        with self.assertRaisesRegex(ValueError, "version 4.* has no table 'region'; it has estimate, frame"):
            profile.regions
        with self.assertRaisesRegex(ValueError, "has no table 'x\"'"):
            profile.table('x"')

    def test_no_profile(self):
        with self.assertRaises(FileNotFoundError):
            hearth.read_profile("/nowhere/app.hearth")
        with self.assertRaisesRegex(ValueError, "install a newer one"):
            hearth.read_profile(self.written(version=_NEWEST + 1))
        with self.assertRaisesRegex(ValueError, "another program's"):
            hearth.read_profile(self.written(application=1))
        path = self.folder() / "text"
        path.write_text("no database, but long enough to have a header\n" * 100)
        with self.assertRaisesRegex(ValueError, "is no profile"):
            hearth.read_profile(path)


PROGRAM = """if True:
    import numpy, hearth
    hearth.phase("build")
    table = hearth.empty(8 << 20, "u1", space="low-latency", pattern="random")
    hearth.name(table, "the table")
    table[:] = 1
    with hearth.loop("steps"):
        for step in range(5):
            table[::64] += 1
    print(hearth.residency(table).absent)
"""


@needs_pandas
class Recorded(Case):
    """A Python program, recorded and planned for by the `hearth` of this build."""

    @classmethod
    def setUpClass(cls):
        built = HERE.parent.parent / "target/release/hearth"
        hearth_program = os.environ.get("HEARTH") or (str(built) if built.exists() else shutil.which("hearth"))
        if not hearth_program:
            raise AssertionError("there is no program `hearth`: build it, or set HEARTH to its path")
        folder = tempfile.TemporaryDirectory()
        cls.addClassCleanup(folder.cleanup)
        profile, plan = Path(folder.name, "py.hearth"), Path(folder.name, "plan.toml")
        environment = {**os.environ, "PYTHONPATH": str(HERE), "PYTHONDONTWRITEBYTECODE": "1"}
        for command in (
            [hearth_program, "record", "-o", profile, "--", sys.executable, "-c", PROGRAM],
            [hearth_program, "plan", profile, "--platform", "cxl-expander", "--fast", "16MiB", "-o", plan],
        ):
            subprocess.run(
                command, env=environment, check=True, stdout=subprocess.DEVNULL, stderr=subprocess.PIPE, timeout=300
            )
        cls.profile, cls.plan_path = hearth.read_profile(profile), plan

    def test_named_arrays_are_sites(self):
        sites = self.profile.sites
        (table,) = sites[sites.function == "the table"].itertuples()
        self.assertEqual((table.objects, table.largest), (1, 8 * MIB))
        objects = self.profile.objects
        (of_table,) = objects[objects.site == table.id].itertuples()
        self.assertEqual((of_table.size, of_table.site_name), (8 * MIB, table.name))
        self.assertEqual(len(sites), len(self.profile.table("site")))
        self.assertEqual(sites.objects.sum(), len(objects) + self.profile.table("churn").objects.sum())

    def test_marks_are_regions(self):
        regions = self.profile.regions
        self.assertEqual(list(regions.function), ["build", "steps", "end of loop"])
        self.assertTrue(regions.start_ns.is_monotonic_increasing)

    def test_every_table_is_read(self):
        for name in self.profile.tables:
            self.assertEqual(len(self.profile.table(name).columns) > 0, True, name)
        self.assertEqual(self.profile.table("run").outcome[0], "exit 0")
        frames = self.profile.frames
        # No frames has what the interpreter allocates where nothing but its own import of modules is on the stack.
        self.assertLessEqual(set(frames.site), set(self.profile.sites.id))
        self.assertEqual(frames[frames.function == "the table"].position.tolist(), [0])
        self.assertGreater(len(self.profile.residency), 0)
        self.assertEqual(list(self.profile.heat), ["site", "start_ns", "misses"])
        self.assertIn("note", self.profile.losses)

    def test_the_plan_is_of_these_sites(self):
        if sys.version_info < (3, 11) and importlib.util.find_spec("tomli") is None:
            self.skipTest("tomli is not installed")
        plan = hearth.read_plan(self.plan_path)
        self.assertLessEqual(set(plan.id), set(self.profile.sites.name))
        self.assertLessEqual(set(plan.tier), {tier["name"] for tier in plan.attrs["tier"]})
        (table,) = plan[plan.label == "the table"].itertuples()
        self.assertEqual(table.peak, 8 * MIB)


if __name__ == "__main__":
    unittest.main()
