"""Runs contenders turn by turn in one process, checks that they agree, and compares what they took."""

from __future__ import annotations

import random
import time
from collections.abc import Callable
from dataclasses import dataclass
from statistics import median

import numpy as np

Call = Callable[[], np.ndarray]

# Short calls are repeated back to back, as a program makes them, and so that the clock resolves them.
SHORTEST = 2e-3
# A pause between contenders lets the threads of the last one go to sleep, and is repeated until they have.
PAUSE = 2e-3


@dataclass
class Row:
    """One line of the table of goals: overt against the strongest of its peers in this run."""

    name: str
    seconds: dict[str, list[float]]
    floor: float | None = None
    goal: float | None = None

    @property
    def strongest(self) -> str | None:
        """The fastest peer, or None where none is installed."""
        peers = [name for name in self.seconds if name != "overt"]
        return min(peers, key=lambda name: median(self.seconds[name])) if peers else None

    @property
    def ratios(self) -> list[float]:
        """Time of the strongest peer over time of overt, round by round."""
        assert self.strongest
        pairs = zip(self.seconds[self.strongest], self.seconds["overt"], strict=True)
        return [peer / ours for peer, ours in pairs]


def compete(
    name: str,
    contenders: dict[str, Call],
    expected: np.ndarray | None,
    *,
    tolerance: float = 1e-5,
    clock: Callable[[], float] = time.process_time,
    budget: float = 3.0,
    floor: float | None = None,
    goal: float | None = None,
) -> Row:
    """Time every contender in turn, after a call that does not count, until the budget of seconds is spent.

    There are at least five rounds.

    ``clock`` is the processor's time by default, which other work on the machine does not disturb much; two threads
    want ``time.perf_counter``.  A contender that is wrong raises: a wrong answer has no speed.
    """
    repeats = {}
    for who, call in contenders.items():
        answer = np.asarray(call(), dtype=np.float64)
        if expected is not None:
            error = np.abs(answer - expected).max() / np.abs(expected).max()
            if not error <= tolerance:
                raise AssertionError(f"{name}: {who} is off by {error:.1e}, which is more than {tolerance:.0e}")
        start = time.perf_counter()
        call()
        repeats[who] = max(1, min(1000, int(SHORTEST / max(time.perf_counter() - start, 1e-7))))
    seconds: dict[str, list[float]] = {who: [] for who in contenders}
    start = time.perf_counter()
    order = random.Random(0)
    while time.perf_counter() - start < budget or len(seconds["overt"]) < 5:
        # Nobody always follows the same one, and nobody pays for a processor that has slept or caches that were taken.
        for who, call in order.sample(list(contenders.items()), len(contenders)):
            settle()
            call()
            before = clock()
            for _ in range(repeats[who]):
                call()
            seconds[who].append((clock() - before) / repeats[who])
    return Row(name, seconds, floor, goal)


def settle() -> None:
    """Wait until no thread of this process works on what is over; some libraries go on after they have answered."""
    for _ in range(100):
        before = time.process_time()
        time.sleep(PAUSE)
        if time.process_time() - before < PAUSE / 10:
            return


def table(rows: list[Row]) -> str:
    """The rows as a Markdown table: medians in milliseconds, the ratio with its middle half, floor and goal."""
    lines = [
        "| case | overt ms | strongest peer | ms | ratio | middle half | floor | goal |",
        "|---|---|---|---|---|---|---|---|",
    ]
    for row in rows:
        ours = f"{1e3 * median(row.seconds['overt']):.3g}"
        wanted = [f"{x:.3g}" if x else "" for x in (row.floor, row.goal)]
        if row.strongest:
            low, middle, high = np.percentile(row.ratios, [25, 50, 75])
            theirs = f"{1e3 * median(row.seconds[row.strongest]):.3g}"
            met = "" if not row.floor or middle >= row.floor else " (below the floor)"
            cells = [row.strongest, theirs, f"{middle:.2f}{met}", f"{low:.2f}–{high:.2f}"]
        else:
            cells = ["none installed", "", "", ""]
        lines.append("| " + " | ".join([row.name, ours, *cells, *wanted]) + " |")
    return "\n".join(lines)
