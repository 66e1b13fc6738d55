"""Ctrl-C and SIGTERM, for what must not be left half done."""

from __future__ import annotations

import signal
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any, NoReturn

from overt.errors import StoppedError


class Stop:
    """What Ctrl-C and SIGTERM ask for: to stop after the step, so that none is left half done; or at once.

    At once is also what they ask for when they ask again.
    """

    def __init__(self) -> None:
        self.asked = 0
        self._now = False

    def __call__(self, number: int, frame: Any) -> None:
        again, self.asked = self.asked, number
        if again or self._now:
            self.leave()

    def leave(self) -> NoReturn:
        """Raise what says who asked."""
        if self.asked == signal.SIGTERM:
            raise StoppedError(self.asked)
        raise KeyboardInterrupt

    @contextmanager
    def at_once(self) -> Iterator[None]:
        """While the block runs, who asks need not wait."""
        self._now = True
        try:
            if self.asked:
                self.leave()
            yield
        finally:
            self._now = False


@contextmanager
def stopping() -> Iterator[Stop]:
    """While the block runs, both ask; elsewhere than in the main thread nobody does."""
    stop = Stop()
    if threading.current_thread() is not threading.main_thread():
        yield stop
        return
    before = {number: signal.signal(number, stop) for number in (signal.SIGINT, signal.SIGTERM)}
    try:
        yield stop
    finally:
        for number, handler in before.items():
            signal.signal(number, handler)
