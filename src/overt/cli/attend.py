"""``overt attend``: attention of arrays in files, of any length."""

from __future__ import annotations

import ctypes
import json
import os
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import click

from overt.cli.paths import PATH
from overt.cli.progress import progress
from overt.errors import ArgumentError
from overt.masks import Mask, causal, window
from overt.scores import scaled_dot
from overt.writing import replaced

# What glibc calls the size from which on memory is the system's own.
_MMAP_THRESHOLD = -3


@click.command()
@click.argument("q", type=PATH)
@click.argument("k", type=PATH)
@click.argument("v", type=PATH)
@click.option("-o", "--output", type=PATH, required=True, help="The folder for the results.")
@click.option("--causal", "is_causal", is_flag=True, help="Let no query look at keys after its own position.")
@click.option("--window", "sides", type=click.IntRange(0), nargs=2, help="Keys from so many before to so many after.")
@click.option("--rows", help="Queries FROM:TO alone, such as 0:65536.")
@click.option("--top", type=click.IntRange(0), help="So many of the heaviest keys of each query: 8, or all if fewer.")
@click.option("--scale", type=float, help="Of scores, by default 1/√D.")
@click.option("--softcap", type=click.FloatRange(0, min_open=True), help="Scores become cap · tanh(scores / cap).")
@click.option("--threads", type=click.IntRange(1), help="By default one per core.")
@click.option("--resume", is_flag=True, help="Go on where a run with the same files and options was stopped.")
@click.option("--overwrite", is_flag=True, help="Begin anew where something is.")
@click.option("--json", "as_json", is_flag=True, help="Print JSON for programs.")
def command(
    q: Path,
    k: Path,
    v: Path,
    output: Path,
    is_causal: bool,
    sides: tuple[int, int] | None,
    rows: str | None,
    top: int | None,
    scale: float | None,
    softcap: float | None,
    threads: int | None,
    resume: bool,
    overwrite: bool,
    as_json: bool,
) -> None:
    """Attention of Q, K and V, .npy files (…, heads, positions, width) that need not fit into memory.

    The folder gets output, lse, received, entropy and the heaviest keys as .npy files.  Ctrl-C stops; the same command
    with --resume goes on.

    \b
    overt attend q.npy k.npy v.npy --window 4095 0 -o seen
    overt attend q.npy k.npy v.npy --causal --rows 0:65536 -o seen
    """  # noqa: D301, click reads \b
    from overt import files

    given = {"q": q, "k": k, "v": v}
    # As they are before they are read: what is written to them meanwhile is a change.
    stamps = {name: stamp(path) for name, path in given.items()}
    _give_back()
    if top is None:
        top = min((8, *files.mapped(k).shape[-2:-1]))
    with progress() as report:
        seen = files.attend(
            output,
            q,
            k,
            v,
            mask=masked(is_causal, sides),
            score=scaled_dot(scale),
            softcap=softcap,
            rows=None if rows is None else _range(rows),
            top=top,
            num_threads=threads,
            resume=resume,
            overwrite=overwrite,
            report=report,
        )
    # What overt show needs, beside the numbers.
    asked: dict[str, Any] = {name: os.path.relpath(path, output) for name, path in given.items()}
    asked |= {"causal": is_causal, "window": sides, "scale": scale, "softcap": softcap}
    asked |= {"identity": seen.identity, "stamps": stamps}
    with replaced(output / "asked.json") as file:
        file.write(json.dumps(asked, indent=2).encode())
    shapes = {name: list(x.shape) for name, x in vars(seen).items() if hasattr(x, "shape")}
    if as_json:
        click.echo(json.dumps({"folder": str(output), "rows": [seen.rows.start, seen.rows.stop], "shapes": shapes}))
        return
    for name, shape in shapes.items():
        click.echo(f"{output / name}.npy  {tuple(shape)}")


def masked(is_causal: bool, sides: Sequence[int] | None) -> Mask | None:
    """The mask of --causal and --window."""
    mask = causal() if is_causal else None
    if sides is None:
        return mask
    return window(*sides) if mask is None else mask & window(*sides)


def stamp(path: Path) -> list[int] | None:
    """What changes when a file does: its size and when it was written."""
    try:
        status = path.stat()
    except (OSError, ValueError):
        # Who reads it says so.
        return None
    return [status.st_size, status.st_mtime_ns]


def _give_back() -> None:
    """Have memory of blocks that are done go back to the system.

    glibc keeps what it has once freed, in pieces into which the next block may not fit: some 40 MiB of them.
    """
    try:
        ctypes.CDLL(None).mallopt(_MMAP_THRESHOLD, 1 << 18)
    except (AttributeError, OSError, TypeError):
        # Other systems have other ways.
        return


def _range(text: str) -> range:
    begin, colon, end = text.partition(":")
    if not (colon and begin.isdecimal() and end.isdecimal() and int(begin) < int(end)):
        raise ArgumentError(
            f"--rows wants two positions FROM:TO, the one before the other, such as 0:65536, not {text!r}"
        )
    return range(int(begin), int(end))
