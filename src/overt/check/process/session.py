"""Where the candidate runs: a fresh process, a fork of this one, or this one."""

from __future__ import annotations

import copy
import fcntl
import os
import random
import select
import signal
import struct
import subprocess
import sys
import time
import warnings
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from pathlib import Path
from types import TracebackType
from typing import Any

import numpy as np

from overt.check.process import wire
from overt.check.process.loading import setting_of_keras
from overt.check.process.wire import ForgedError
from overt.errors import ArgumentError

Reply = tuple[dict[str, Any], wire.Arrays]


class EndedError(Exception):
    """The candidate's process is no more, or does not answer."""

    def __init__(self, kind: str, message: str) -> None:
        super().__init__(message)
        self.kind = kind


class DiedError(EndedError):
    """The candidate's process ended in the middle of a request."""


# Times that a process which died in the middle of a candidate is started again.
_AGAIN = 2
# So many seconds are no more than what the clock of a process counts in.
_TICK = 0.1


class _Passed:
    """Which arguments of the candidate calls have passed, by name or by number (guesses are no calls)."""

    def __init__(self) -> None:
        self.passed: set[str | int] = set()

    def note(self, message: dict[str, Any]) -> None:
        """Look at a request."""
        if message["op"] == "load":
            self.passed = set()
        for call in message.get("calls", ()):
            self.passed |= set() if call.get("guess") else {*call["kwargs"], *range(len(call["args"]))}


class Session(_Passed):
    """A process that runs candidates; a context manager."""

    def __init__(
        self, target: Any = None, *, timeout: float = 20.0, deadline: float = 300.0, memory: int = 2 << 30
    ) -> None:
        """A thing runs in a fork of this process; None starts a fresh process, which loads what it is told to.

        ``timeout`` is for each call, ``deadline`` for all calls of one candidate.
        """
        super().__init__()
        self.timeout, self.deadline = timeout, deadline
        self._target, self._memory = target, memory
        # whether its process is a copy of this one
        self.forked = target is not None
        # what the process was told that it keeps, and how often it died since it loaded
        self._told: list[tuple[dict[str, Any], wire.Arrays | None]] = []
        self._died = 0
        # whether its process has called a candidate, and whether the one that is loaded has answered
        self._called = self._answered = False
        self._end = time.monotonic() + deadline
        self._start()

    def _start(self) -> None:
        """Start the process."""
        target, memory, deadline = self._target, self._memory, self.deadline
        self._called = False
        down, up = _pipe(), _pipe()
        parent = os.getpid()
        self._process: subprocess.Popen | None = None
        if target is None:
            # What lies in the working directory, or beside overt, is nothing that Python itself should import.
            here = str(Path(__file__).parents[3])
            start = (
                f"import sys; sys.path.insert(0, {here!r}); from overt.check.process.child import main; "
                f"sys.path.remove({here!r}); main({parent}, {down[0]}, {up[1]}, {memory}, {deadline})"
            )
            self._process = subprocess.Popen(
                [sys.executable, "-P", "-c", start],
                pass_fds=(down[0], up[1]),
                env={**setting_of_keras(), **os.environ, "OMP_NUM_THREADS": "1", "PYTHONDONTWRITEBYTECODE": "1"},
                start_new_session=True,
            )
            self.pid = self._process.pid
        else:
            with warnings.catch_warnings():
                warnings.simplefilter("ignore")
                self.pid = os.fork()
            if self.pid == 0:
                _forked(target, parent, down, up, memory, deadline)
        os.close(down[0])
        os.close(up[1])
        self._out, self._in = os.fdopen(down[1], "wb"), up[0]

    def __enter__(self) -> Session:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.close()

    def close(self) -> None:
        """End the process, whatever it does."""
        if self.pid:
            for end in (os.killpg, os.kill):
                try:
                    end(self.pid, signal.SIGKILL)
                    break
                except OSError:
                    continue
            self._reap()

    def ask(self, message: dict[str, Any], arrays: wire.Arrays | None = None) -> Reply:
        """One request and its answer.

        A process that dies of one is started anew, and the request has failed: another call may be a better one.
        """
        self.note(message)
        loads = message["op"] == "load"
        if not self.pid:
            if not loads:
                # Whoever asked before has heard of it, and left it at that.
                raise EndedError("time", "the process has ended")
            # What one candidate did to its process is nothing to the next.
            self._start()
        if loads:
            self._end, self._told, self._died = time.monotonic() + self.deadline, [], 0
            self._answered = False
        try:
            found = self._asked(message, arrays)
        except EndedError as died:
            # Numbers that somebody else would build with are no fault of what takes its time with them.
            slow = died.kind == "hang" and message["op"] == "build"
            # What is judged has run before that: it takes no time, and its judge does.
            calls = [call for call in message.get("calls", ()) if not call.get("example")]
            judged = any(call.get("record") is not None or call.get("weigh") for call in calls)
            # Nor does a call that is tried say much, where others were answered.
            guessed = self._answered and bool(calls) and all(call.get("search") for call in calls)
            slow = slow or (died.kind == "hang" and (judged or guessed))
            if died.kind == "hang" and message["op"] == "call" and not arrays:
                # What takes no array does something else, such as training, which takes its time.
                raise EndedError("time", f"{died}, and what it was given holds no array") from None
            if not slow and not isinstance(died, DiedError):
                raise
            self._died += 1
            if loads or self._died > _AGAIN:
                if not slow:
                    raise
                asked = "to be judged" if judged else "to a call that was tried" if guessed else "to be built"
                raise EndedError("time", f"{died}, {asked}") from None
            self._start()
            for told in self._told:
                self._asked(*told)
            return {"error": {"type": "DiedError", "message": str(died), "line": None}}, {}
        if loads and "error" in found[0] and self._called and not self.forked:
            # So is what one left there unfinished, such as the import of a library.
            self.close()
            self._start()
            found = self._asked(message, arrays)
        self._called |= message["op"] == "call"
        self._answered |= message["op"] == "call"
        if message["op"] != "call" and "error" not in found[0]:
            self._told.append((message, arrays))
        return found

    def _asked(self, message: dict[str, Any], arrays: wire.Arrays | None) -> Reply:
        try:
            wire.send(self._out, message, arrays)
            while True:
                # A large library is loaded in more time than a call may take, and nothing so small is built in as much.
                seconds = self.timeout * {"load": 3, "build": 0.25}.get(message["op"], 1)
                size = struct.unpack("<q", self._read(8, seconds))[0]
                if not 0 < size < wire.LARGEST:
                    raise ForgedError(f"a message of {size} bytes")
                reply = wire.parse(self._read(size, seconds))
                # A sign of life between two calls of a request.
                if set(reply[0]) != {"calls"}:
                    return reply
        except ForgedError:
            self.close()
            raise EndedError("crash", "the process wrote to the checker's pipe") from None
        except BrokenPipeError:
            ended = self._ended()
            raise ended from None

    def _read(self, count: int, seconds: float) -> bytes:
        parts, missing = [], count
        end = min(time.monotonic() + seconds, self._end)
        before: float | None = None
        while missing:
            # Most answers come before a look at how long the process has worked would pay.
            wait = max(0.0, end - time.monotonic())
            ready, _, _ = select.select([self._in], [], [], min(_TICK, wait) if before is None else wait)
            if not ready:
                worked, going = self._worked()
                if before is None:
                    before = worked
                    continue
                left = seconds - (worked - before)
                if going and left > _TICK and end != self._end:
                    # Others had the processor: what it was kept from is no time of its own.
                    end = min(time.monotonic() + left, self._end)
                    continue
                self.close()
                if end == self._end:
                    raise EndedError("time", f"{self.deadline:g} seconds for all calls were not enough")
                raise EndedError("hang", f"it did not answer within {seconds:g} seconds")
            part = os.read(self._in, min(missing, 1 << 20))
            if not part:
                ended = self._ended()
                raise ended
            parts.append(part)
            missing -= len(part)
        return b"".join(parts)

    def _worked(self) -> tuple[float, bool]:
        """Seconds of processor time that the process had, and whether it wants more; 0 and False if nothing tells."""
        try:
            told = Path(f"/proc/{self.pid}/stat").read_text().rpartition(")")[2].split()
        except OSError:
            return 0.0, False
        return (int(told[11]) + int(told[12])) / os.sysconf("SC_CLK_TCK"), told[0] == "R"

    def _ended(self) -> EndedError:
        status = self._reap()
        if os.WIFSIGNALED(status) and os.WTERMSIG(status) == signal.SIGXCPU:
            return EndedError("time", f"processor time for {self.deadline:g} seconds was not enough")
        if os.WIFSIGNALED(status):
            return DiedError("crash", f"its process was killed by {signal.Signals(os.WTERMSIG(status)).name}")
        return DiedError("exit", f"it ended the process with code {os.WEXITSTATUS(status)}")

    def _reap(self) -> int:
        _, status = os.waitpid(self.pid, 0)
        if self._process is not None:
            self._process.returncode = status
        self.pid = 0
        with suppress(OSError):
            self._out.close()
        os.close(self._in)
        return status


class Here(_Passed):
    """The same, in this process: without limits, for what cannot be forked; on a copy, leaving all as it was."""

    def __init__(self, target: Any = None) -> None:
        from overt.check.process.candidate import Candidate

        super().__init__()
        try:
            # Weights, dtype and mode of an instance are the user's.
            own = copy.deepcopy(target)
        except Exception as error:
            raise ArgumentError(
                f"a {type(target).__name__} cannot be copied, and is not checked itself ({error}): check its class"
            ) from None
        self._candidate = Candidate(own, interruptible=True)

    def __enter__(self) -> Here:
        return self

    def __exit__(self, *rest: object) -> None:
        pass

    def ask(self, message: dict[str, Any], arrays: wire.Arrays | None = None) -> Reply:
        """One request and its answer."""
        self.note(message)
        with _untouched():
            return self._candidate.answer(message, arrays or {})


@contextmanager
def _untouched() -> Iterator[None]:
    """Give back the random numbers and settings of the libraries that a request changes."""
    torch, keras = sys.modules.get("torch"), sys.modules.get("keras")
    python, numpy = random.getstate(), np.random.get_state()  # noqa: NPY002
    state = None if torch is None else torch.get_rng_state()
    devices = torch.cuda.get_rng_state_all() if torch is not None and torch.cuda.is_initialized() else None
    width = None if keras is None else keras.config.floatx()
    try:
        yield
    finally:
        random.setstate(python)
        np.random.set_state(numpy)  # noqa: NPY002
        if torch is not None and state is not None:
            torch.set_rng_state(state)
            if devices is not None:
                torch.cuda.set_rng_state_all(devices)
        if keras is not None and width is not None:
            keras.config.set_floatx(width)


def _pipe() -> tuple[int, int]:
    """A pipe, away from the standard streams: their numbers may be free here, and are pointed elsewhere there."""
    ends = os.pipe()
    moved = [fcntl.fcntl(end, fcntl.F_DUPFD_CLOEXEC, 3) for end in ends]
    for end in ends:
        os.close(end)
    return moved[0], moved[1]


def _forked(target: Any, parent: int, down: tuple[int, int], up: tuple[int, int], memory: int, deadline: float) -> None:
    """Serve in the child of a fork, and never come back."""
    from overt.check.process.child import main

    code = 1
    try:
        os.setsid()
        os.close(down[1])
        os.close(up[0])
        main(parent, down[0], up[1], memory, deadline, target)
        code = 0
    finally:
        os._exit(code)
