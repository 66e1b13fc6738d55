"""Threads of Python and forked processes."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
from concurrent.futures import ThreadPoolExecutor

import numpy as np
import pytest

import overt
from overt.problem import Problem


def python(code: str, *arguments: str, **environment: str) -> None:
    """Run code in a process of its own, so that a hang is a time-out and not the end of the test run."""
    command = [sys.executable, "-c", code, *arguments]
    done = subprocess.run(command, capture_output=True, text=True, timeout=120, env={**os.environ, **environment})
    assert done.returncode == 0, f"{done.returncode}: {done.stdout}{done.stderr}"


def test_two_python_threads_agree_with_one() -> None:
    rng = np.random.default_rng(0)
    # Of all sizes, since a call may find the memory of another one.
    inputs = [[rng.normal(size=(2, 60 * n, 40)).astype(np.float32) for _ in range(3)] for n in range(1, 9)]

    def everything(qkv: list[np.ndarray]) -> list[bytes]:
        seen = overt.attend(*qkv, mask=overt.causal())
        results = seen.output, seen.lse, seen.received(), seen.entropy(), *seen.top(3), seen.map(7, 9)
        return [x.tobytes() for x in results]

    expected = [everything(qkv) for qkv in inputs]
    with ThreadPoolExecutor(4) as pool:
        for _ in range(5):
            assert list(pool.map(everything, inputs)) == expected


@pytest.mark.skipif(not hasattr(os, "fork"), reason="this system cannot fork")
def test_fork_after_use_does_not_hang() -> None:
    code = """
import os, sys
import numpy as np
import overt

q, k, v = (np.random.default_rng(i).normal(size=(8, 512, 64)).astype(np.float32) for i in range(3))
parent = overt.attention(q, k, v)
for _ in range(3):
    pid = os.fork()
    if not pid:
        os._exit(0 if (overt.attention(q, k, v) == parent).all() else 1)
    _, status = os.waitpid(pid, 0)
    assert os.waitstatus_to_exitcode(status) == 0
    assert (overt.attention(q, k, v) == parent).all()
"""
    python(code, OMP_NUM_THREADS="2")


def test_threads_are_those_that_were_asked_for() -> None:
    code = """
import os
import overt
assert overt.get_num_threads() == expected
overt.set_num_threads(2)
assert overt.get_num_threads() == 2
overt.set_num_threads(None)
assert overt.get_num_threads() == expected
"""
    available = len(os.sched_getaffinity(0))
    for asked, expected in (("3", 3), ("5,2", 5), (" 4 ", 4), ("none", available), ("0", available), ("", available)):
        python(code.replace("expected", str(expected)), OMP_NUM_THREADS=asked)
    one = min(os.sched_getaffinity(0))
    pinned = f"import os; os.sched_setaffinity(0, [{one}])\n" + code.replace("expected", "1")
    python(pinned, OMP_NUM_THREADS="")


def test_threads_do_not_spin_while_they_wait() -> None:
    # A waiting thread that spins takes the time of whatever runs beside the library.
    code = """
import time
import numpy as np
import overt

q, k, v = (np.random.default_rng(i).normal(size=(8, 128, 64)).astype(np.float32) for i in range(3))

def spent(pause):
    before = time.process_time()
    for _ in range(100):
        overt.attention(q, k, v)
        time.sleep(pause)
    return time.process_time() - before

spent(0)
busy, idle = min(spent(0) for _ in range(5)), min(spent(0.005) for _ in range(3))
assert idle < 2 * busy + 0.1, (busy, idle)
"""
    python(code, OMP_NUM_THREADS="2")


@pytest.mark.skipif(not hasattr(os, "sched_getaffinity"), reason="this system tells no CPUs of threads")
def test_threads_may_run_where_they_could_before() -> None:
    code = """
import os, time
import numpy as np
import overt

q = np.random.default_rng(0).normal(size=(8, 256, 64)).astype(np.float32)
own = os.sched_getaffinity(0)
overt.attention(q, q, q, num_threads=2)
# Long enough for them to fall asleep and be woken, where who wakes them keeps them off its own CPU.
for _ in range(20):
    time.sleep(0.002)
    overt.attention(q, q, q, num_threads=2)
time.sleep(0.1)
threads = [int(name) for name in os.listdir("/proc/self/task")]
assert len(threads) > 1 and all(os.sched_getaffinity(thread) == own for thread in threads)
"""
    python(code)


def test_threads_that_cannot_be_had() -> None:
    code = """
import os, re, resource
import numpy as np
import overt

def running():
    return int(re.search(r"Threads:\\s+(\\d+)", open("/proc/self/status").read())[1])

def everything(threads):
    seen = overt.attend(q, k, v, num_threads=threads)
    found = seen.output, *seen.gradient(q)[:3], seen.map(2, 2), *seen.top(2), seen.weights[0, :3]
    return [x.tobytes() for x in found]

q, k, v = (np.random.default_rng(i).normal(size=(64, 512, 8)).astype(np.float32) for i in range(3))
expected, before = everything(1), running()
# No limit holds for the superuser.
if not os.getuid():
    os.setuid(65534)
most = resource.getrlimit(resource.RLIMIT_NPROC)[1]
resource.setrlimit(resource.RLIMIT_NPROC, (1, most))
assert everything(2000) == expected
assert running() == before
resource.setrlimit(resource.RLIMIT_NPROC, (most, most))
# Or room for some stacks alone.
every = resource.getrlimit(resource.RLIMIT_AS)
mapped = int(open("/proc/self/statm").read().split()[0]) * resource.getpagesize()
resource.setrlimit(resource.RLIMIT_AS, (mapped + (24 << 20), every[1]))
try:
    assert everything(2000) == expected
except MemoryError:
    pass
resource.setrlimit(resource.RLIMIT_AS, every)
for count in (2, 2000, 2**30, 2**31 - 1):
    assert everything(count) == expected
assert before < running() <= before + max(15, os.cpu_count() - 1)
tiny = overt.attend(q[:1, :3], k[:1, :3], v[:1, :3], num_threads=2**30)
assert tiny.map(2, 2).shape == (1, 2, 2)
"""
    python(code)


def test_callers_share_the_threads() -> None:
    code = """
from concurrent.futures import ThreadPoolExecutor
import numpy as np
import overt

rng = np.random.default_rng(0)
q, k, v = (rng.normal(size=(4, 300, 32)).astype(np.float32) for _ in range(3))

def everything(threads):
    seen = overt.attend(q, k, v, num_threads=threads)
    statistics = overt.kernels.statistics(seen.problem, seen.lse[None].copy())
    return [x.tobytes() for x in (seen.output, *seen.gradient(q)[:3], *statistics, seen.map(5, 5))]

expected = everything(1)
with ThreadPoolExecutor(6) as pool:
    for found in pool.map(everything, [2, 3, 1, 7] * 40):
        assert found == expected
"""
    python(code)


@pytest.mark.skipif(not hasattr(os, "fork"), reason="this system cannot fork")
def test_fork_while_others_compute() -> None:
    code = """
import os, threading
import numpy as np
import overt

q, k, v = (np.random.default_rng(i).normal(size=(8, 256, 64)).astype(np.float32) for i in range(3))
expected, stop = overt.attention(q, k, v, num_threads=3), threading.Event()

def compute():
    while not stop.is_set():
        assert (overt.attention(q, k, v, num_threads=3) == expected).all()

others = [threading.Thread(target=compute) for _ in range(2)]
for other in others:
    other.start()
for _ in range(20):
    pid = os.fork()
    if not pid:
        os._exit(0 if (overt.attention(q, k, v, num_threads=3) == expected).all() else 1)
    assert os.waitstatus_to_exitcode(os.waitpid(pid, 0)[1]) == 0
stop.set()
for other in others:
    other.join()
"""
    python(code)


@pytest.mark.skipif(not hasattr(os, "fork"), reason="this system cannot fork")
@pytest.mark.parametrize("threads", [1, 2])
def test_fork_in_the_middle_of_a_call(threads: int) -> None:
    code = """
import os, signal
import numpy as np
import overt

q, k, v = (np.random.default_rng(i).normal(size=(4, 6000, 64)).astype(np.float32) for i in range(3))
children = []

def fork(number, frame):
    children.append(os.fork())
    if not children[-1]:
        signal.setitimer(signal.ITIMER_REAL, 0)

signal.signal(signal.SIGALRM, fork)
signal.setitimer(signal.ITIMER_REAL, 0.05)
try:
    found = overt.attention(q, k, v, num_threads=threads)
except RuntimeError as error:
    # The child has one thread, and that is where half of the result was.
    assert "forked" in str(error)
    assert not children[-1]
    assert threads > 1
assert len(children) == 1
again = overt.attention(q, k, v, num_threads=threads)
if children[0]:
    assert (again == found).all()
    assert os.waitstatus_to_exitcode(os.waitpid(children[0], 0)[1]) == 0
os._exit(0)
"""
    python(code.replace("num_threads=threads", f"num_threads={threads}").replace("threads > 1", f"{threads} > 1"))


CALLS = {
    "forward": "overt.kernels.forward(problem, level=level)",
    "attend": "overt.kernels.attend(problem, level=level)",
    "decode": "overt.kernels.forward(one, level=level)",
    "gradient": "overt.kernels.gradient(problem, output, lse, output, level=level)",
    "statistics": "overt.kernels.statistics(problem, lse, level=level)",
    "top": "overt.kernels.top(problem, lse, 3, level=level)",
    "map": "overt.kernels.pooled(problem, lse, bins, bins, 'max', level=level)",
    "additive": "overt.kernels.forward(additive, level=level)",
    "additive gradient": "overt.kernels.gradient(additive, output[:, :1], lse[:, :1], output[:, :1], level=level)",
    "projections": "overt.kernels.forward(projected, level=level)",
    "half types": "overt.kernels.forward(half, level=level)",
    "norms": "overt.kernels.statistics(normed, lse, level=level)",
    "gradients of projections": "pull_factors(many.score, many.q, many.k, wide, wide)",
    "weights": "overt.kernels.weights(few, lse[:, :8, :1000].copy(), level=level)",
}
"""The calls that take long, on a problem that takes minutes."""

INTERRUPT = """
import os, signal, sys, threading, time
import numpy as np
import overt
from overt.kernels.pieces import pull_factors

level, threads = sys.argv[1], int(sys.argv[2])
rng = np.random.default_rng(0)

def ask(T, S, H=64, score=overt.scaled_dot(), dtype=np.float32):
    # One array, however long.
    q, k = (np.broadcast_to(rng.normal(size=(1, 1, n, 64)).astype(dtype), (1, H, n, 64)) for n in (T, S))
    return overt.problem.Problem.of(q, k, k, score=score, num_threads=threads)

problem, few, one = ask(40_000, 40_000), ask(1000, 25_000, 8), ask(4, 2_000_000, 4096)
weights = (rng.normal(size=shape).astype(np.float32) for shape in ((128, 64), (128, 64), (128,)))
score = overt.additive(*weights)
# Of one head, whose rows are projected at once; of 64 that alone takes seconds.
additive, projected = ask(40_000, 40_000, 1, score), ask(40_000, 40_000, 64, score)
many = ask(40_000, 40_000, 512, score)
wide = np.broadcast_to(rng.normal(size=(1, 1, 40_000, 128)).astype(np.float32), (1, 512, 40_000, 128))
half, normed = (ask(40_000, 40_000, 64, overt.cosine(), dtype) for dtype in (np.float16, np.float32))
output, lse = np.zeros((1, 64, 40_000, 64), np.float32), np.zeros((1, 64, 40_000), np.float32)
bins = np.array([[0, 20_000], [20_000, 40_000]])
small = [rng.normal(size=(4, 200, 16)).astype(np.float32) for _ in range(3)]

def check():
    seen = overt.attend(*small, num_threads=threads)
    return [x.tobytes() for x in (seen.output, *seen.gradient(small[0])[:3], seen.map(3, 3))]

expected = check()

def interrupt():
    global sent
    time.sleep(0.05)
    sent = time.process_time()
    os.kill(os.getpid(), signal.SIGINT)

for call in sys.argv[3:]:
    thread = threading.Thread(target=interrupt)
    thread.start()
    try:
        eval(compile(call, "call", "eval"))
    except KeyboardInterrupt:
        late = time.process_time() - sent
    else:
        raise AssertionError(f"{call} came to an end")
    thread.join()
    print(f"{call}: {late:.3f} s", flush=True)
    assert late < 0.1 * threads, (call, late)
    assert check() == expected
"""


@pytest.mark.parametrize("threads", [1, 2])
@pytest.mark.parametrize("level", overt.kernels.levels())
def test_a_call_can_be_interrupted(level: str, threads: int) -> None:
    python(INTERRUPT, level, str(threads), *CALLS.values())


def test_a_call_of_another_thread_is_not_interrupted() -> None:
    # Signals are for the main thread, and the others must not lose their results.
    code = """
import os, signal, threading, time
import numpy as np
import overt

q, k, v = (np.random.default_rng(i).normal(size=(4, 4000, 64)).astype(np.float32) for i in range(3))
expected, found = overt.attention(q, k, v, num_threads=2), []

def compute():
    found.append(overt.attention(q, k, v, num_threads=2))

other = threading.Thread(target=compute)
other.start()
try:
    os.kill(os.getpid(), signal.SIGINT)
    time.sleep(60)
except KeyboardInterrupt:
    other.join()
assert (found[0] == expected).all()
"""
    python(code)


@pytest.mark.parametrize("threads", [1, 2])
@pytest.mark.parametrize("level", overt.kernels.levels())
def test_a_handler_may_call_in_turn(level: str, threads: int) -> None:
    rng = np.random.default_rng(0)
    inputs = [rng.normal(size=(1, 4, n, 64)).astype(np.float32) for n in (2500, 2500, 2500, 200, 300, 300)]
    problem, small = (
        Problem.of(*some, score=overt.scaled_dot(), num_threads=threads) for some in (inputs[:3], inputs[3:])
    )

    def everything(problem: Problem) -> list[bytes]:
        output, lse, _ = overt.kernels.attend(problem, level=level)
        gradient = overt.kernels.gradient(problem, output, lse, output, level=level)
        return [x.tobytes() for x in (output, lse, *gradient[:3], *overt.kernels.statistics(problem, lse, level=level))]

    expected, inner = everything(problem), everything(small)
    handled, over, before = [], [], signal.getsignal(signal.SIGALRM)

    def handle(number: int, frame: object) -> None:
        # Outside, subnormal numbers are what they are everywhere.
        subnormal = np.full(64, 1e-39, np.float32) * np.float32(0.5)
        handled.append(everything(small) == inner and bool((subnormal > 0).all()))
        # Only now: on a slow machine the next would come before this one has ended.
        if not over:
            signal.setitimer(signal.ITIMER_REAL, 0.03)

    signal.signal(signal.SIGALRM, handle)
    signal.setitimer(signal.ITIMER_REAL, 0.01)
    try:
        for _ in range(10):
            assert everything(problem) == expected
            if handled:
                break
    finally:
        # A handler that still waits for its turn must not set the clock again.
        over.append(True)
        signal.setitimer(signal.ITIMER_REAL, 0)
        signal.signal(signal.SIGALRM, before)
    assert handled
    assert all(handled)
