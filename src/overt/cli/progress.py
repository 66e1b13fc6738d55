"""The bar of what takes long: how much is done, and the time that is left."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import contextmanager


@contextmanager
def progress() -> Iterator[Callable[[int, int], None]]:
    """What is told how many cells are done, and of how many, shows it on stderr."""
    from rich.console import Console
    from rich.progress import BarColumn, Progress, TextColumn, TimeElapsedColumn, TimeRemainingColumn

    columns = (
        BarColumn(),
        TextColumn("{task.percentage:.1f} % of {task.fields[cells]} cells,"),
        TimeElapsedColumn(),
        TextColumn("left"),
        TimeRemainingColumn(),
    )
    bars = Progress(*columns, console=Console(stderr=True))
    bar = bars.add_task("", total=None, cells="")

    def report(done: int, total: int) -> None:
        # The bar appears when there is something to do, so that what is wrong from the start is one line.
        bars.start()
        bars.update(bar, total=max(total, 1), completed=done if total else 1, cells=f"{total:.3g}")

    try:
        yield report
    finally:
        if bars.live.is_started:
            bars.stop()
