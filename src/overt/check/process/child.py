"""The process that runs the candidate: what it may take, and when it ends."""

from __future__ import annotations

import ctypes
import gc
import math
import os
import re
import select
import signal
import sys
import threading
from contextlib import suppress
from pathlib import Path
from typing import Any, BinaryIO, NamedTuple

import numpy as np

from overt.check.process import wire
from overt.check.process.candidate import Candidate


class Limits(NamedTuple):
    """What the process may take: bytes beyond its libraries, and seconds for one candidate."""

    memory: int
    seconds: float


# Bytes of the largest file, and of memory and of a file while libraries are loaded.
_FILE, _LOADING = 256 << 20, (4 << 30, 64 << 30)


def serve(incoming: BinaryIO, outgoing: BinaryIO, candidate: Candidate, limits: Limits) -> None:
    """Answer until the checker goes away."""
    # In a fork of a process that has used it, JAX only waits for threads that are not there.
    inherited = "jax" in sys.modules
    candidate.alive = lambda calls: wire.send(outgoing, {"calls": calls})
    # A name that NumPy 2 has dropped is found in the text; here the code shall run all the same.
    vars(np)["infty"] = np.inf
    while True:
        _make_room(candidate, limits.memory // 4)
        request = wire.receive(incoming)
        if request is None:
            return
        message, arrays = request
        if message["op"] == "load":
            _restrict(max(limits.memory, _LOADING[0]), _LOADING[1], limits.seconds)
        reply, out = candidate.answer(message, arrays)
        if message["op"] == "load":
            if "jax" in sys.modules:
                # Each call is compiled to be made once, and its failures are read by nobody.
                sys.modules["jax"].config.update("jax_disable_most_optimizations", True)
                sys.modules["jax"].config.update("jax_traceback_filtering", "off")
            # What it has imported is not what it takes.
            _restrict(limits.memory, _FILE, limits.seconds, starting=not inherited)
        try:
            wire.send(outgoing, reply, out)
        except (MemoryError, TypeError, ValueError) as error:
            # What fills the memory while it is packed is a ValueError too.
            out.clear()
            wire.send(outgoing, {"error": {"type": type(error).__name__, "message": str(error), "line": None}})


def _make_room(candidate: Candidate, memory: int) -> None:
    """Give up the instances that were made, where they leave less memory than that: libraries crash without any."""
    try:
        # None of it is written to.
        np.empty(memory, np.uint8)
    except MemoryError:
        candidate.built = [None] * len(candidate.built)
        candidate.kept = {}
        gc.collect()


def _restrict(memory: int, file: int, seconds: float, *, starting: bool = False) -> None:
    """So many bytes more than the process may write to now; the files that its libraries map are not counted.

    Files of so many bytes, so many seconds more of every processor, and no picture of the memory where it crashes.
    starting: libraries may start threads that they will need first.
    """
    with suppress(ImportError, OSError, ValueError):
        import resource

        def restrict(kind: int, wanted: int) -> None:
            most = resource.getrlimit(kind)[1]
            resource.setrlimit(kind, (wanted if most < 0 else min(wanted, most), most))

        restrict(resource.RLIMIT_CORE, 0)
        restrict(resource.RLIMIT_FSIZE, file)
        usage = resource.getrusage(resource.RUSAGE_SELF)
        wanted = usage.ru_utime + usage.ru_stime + seconds * (os.cpu_count() or 1)
        restrict(resource.RLIMIT_CPU, math.ceil(wanted))
        _, most = resource.getrlimit(resource.RLIMIT_DATA)
        resource.setrlimit(resource.RLIMIT_DATA, (most, most))
        jax = sys.modules.get("jax") if starting else None
        if jax is not None:
            # It starts its threads at its first array, and hangs where it finds no room for them.
            jax.numpy.zeros(1).block_until_ready()
        told = re.search(r"^VmData:\s*(\d+) kB", Path("/proc/self/status").read_text(), re.MULTILINE)
        if told is not None:
            restrict(resource.RLIMIT_DATA, 1024 * int(told[1]) + memory)


# Of <linux/prctl.h>.
_PR_SET_PDEATHSIG = 1


def follow(parent: int, pipe: int) -> None:
    """End when the checker ends, however it does: Linux sees to it, elsewhere a thread that watches a pipe."""
    prctl = getattr(ctypes.CDLL(None), "prctl", None)
    if prctl is not None:
        prctl(_PR_SET_PDEATHSIG, signal.SIGKILL)
        if os.getppid() != parent:
            # It had ended before that.
            os._exit(1)
        return

    def wait() -> None:
        # Nothing is waited for but the end of who writes.
        poll = select.poll()
        poll.register(pipe, 0)
        poll.poll()
        os.kill(os.getpid(), signal.SIGKILL)

    threading.Thread(target=wait, daemon=True).start()


def main(parent: int, reading: int, writing: int, memory: int, seconds: float, target: Any = None) -> None:
    """Serve requests: the process that checks, pipes in and out, limits of bytes and seconds, and a thing, if any."""
    follow(parent, reading)
    # What the candidate prints past Python goes nowhere, and what it reads is empty.
    nowhere = os.open(os.devnull, os.O_RDWR)
    for number in (0, 1, 2):
        os.dup2(nowhere, number)
    sys.argv = [""]
    # What torch compiles is run as it stands: a compiler takes its time, and hides the operations.
    os.environ["TORCHDYNAMO_DISABLE"] = "1"
    if "torch" in sys.modules:
        # The threads of a parent's pool are not in a fork.
        sys.modules["torch"].set_num_threads(1)
    if "torch._dynamo" in sys.modules:
        # It was compiled before the fork.
        sys.modules["torch"].compiler.set_stance("force_eager")
    with os.fdopen(reading, "rb") as incoming, os.fdopen(writing, "wb") as outgoing:
        serve(incoming, outgoing, Candidate(target), Limits(memory, seconds))
