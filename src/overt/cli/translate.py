"""overt translate."""

from __future__ import annotations

import json
import shutil
import sys
from collections.abc import Iterator
from itertools import islice
from typing import TYPE_CHECKING

import click
import numpy as np

from overt.errors import ArgumentError, FileError

if TYPE_CHECKING:
    from overt.models import Translation

SHADES = " ░▒▓█"
# Lines that are read before the first of them is translated.
_AT_ONCE = 64


@click.command()
@click.argument("text", nargs=-1)
@click.option("-m", "--model", default="en-zh", show_default=True, help="A bundled model, or the path of a checkpoint.")
@click.option("--show", is_flag=True, help="Show where each word of the translation looked.")
@click.option("--json", "as_json", is_flag=True, help="One JSON object a line, with scores, tokens and alignment.")
@click.option("-b", "--beam", default=5, show_default=True, type=click.IntRange(1, 100), help="1 is greedy.")
@click.option(
    "-n", "--n-best", default=1, show_default=True, type=click.IntRange(1, 100), help="Translations per text."
)
@click.option(
    "--length-penalty",
    type=click.FloatRange(-10, 10),
    default=1.0,
    show_default=True,
    help="Larger prefers longer translations.",
)
@click.option("--prefix", default="", help="What every translation begins with.")
@click.option("--temperature", type=click.FloatRange(0.01, 100), help="Draw words instead of searching for the best.")
@click.option("--seed", default=0, show_default=True, type=click.IntRange(0), help="For --temperature.")
@click.option(
    "--max-length",
    type=click.IntRange(1, 1000),
    help="The most tokens of a translation.  By default as many as the model has learnt that such a text may need.",
)
@click.option("--keep-unknown", is_flag=True, help="Leave unknown words as <unknown>, do not copy what they looked at.")
def command(
    text: tuple[str, ...],
    model: str,
    show: bool,
    as_json: bool,
    beam: int,
    n_best: int,
    length_penalty: float,
    prefix: str,
    temperature: float | None,
    seed: int,
    max_length: int | None,
    keep_unknown: bool,
) -> None:
    """Translate TEXT, or each line of standard input, and show the attention that did it.

    \b
    overt translate "I love you." --show
    overt translate --json < english.txt > chinese.jsonl
    overt translate --model dates "3 de febrero de 2024"
    """  # noqa: D301, click reads \b
    if show and as_json:
        raise ArgumentError("--json holds the alignment already: leave out --show")
    if temperature is not None and n_best > 1:
        raise ArgumentError("--temperature draws one translation: leave out --n-best")
    from overt.models import load

    translator = load(model)
    number = 0
    for lines in [[" ".join(text)]] if text else _chunks():
        trouble = None
        rows: list[tuple[str, bool]] = []
        for i, line in enumerate(lines, number + 1):
            # An empty line stays one, so that line n of the output translates line n of the input.
            said = bool(text or line.strip())
            try:
                if said:
                    translator.split(line, "the text" if text else f"line {i}")
            except ArgumentError as error:
                # What stands before it is translated first, and not lost.
                trouble = error
                break
            rows.append((line, said))
        found = iter(
            translator.translate(
                [line for line, said in rows if said],
                beam=max(beam, n_best),
                n_best=n_best,
                penalty=length_penalty,
                prefix=prefix,
                temperature=temperature,
                seed=seed + number,
                replace_unknown=not keep_unknown,
                max_length=max_length,
            )
        )
        for _, said in rows:
            number += 1
            best = next(found) if said else []
            _print(best, number, show, as_json, n_best)
            if cut := [len(one.target_tokens) for one in best if one.cut]:
                name = "the translation" if text else f"the translation of line {number}"
                click.echo(f"overt: {name} is cut at {max(cut)} tokens: --max-length allows for more", err=True)
        if trouble:
            raise trouble


def _chunks() -> Iterator[list[str]]:
    """The lines of standard input, some at a time; from a keyboard, one."""
    stream, number = sys.stdin.buffer, 0
    size = 1 if sys.stdin.isatty() else _AT_ONCE
    while raw := list(islice(stream, size)):
        lines = []
        for line in raw:
            number += 1
            try:
                lines.append(line.decode().rstrip("\r\n"))
            except UnicodeDecodeError as error:
                yield lines
                raise FileError(f"line {number}: not UTF-8 ({error.reason} at byte {error.start})") from None
        yield lines


def _print(found: list[Translation], number: int, show: bool, as_json: bool, n_best: int) -> None:
    if as_json:
        from overt.models import Translation

        found = found or [Translation("", "", 0.0, (), (), np.zeros((0, 0)))]
        line = found[0].described()
        if n_best > 1:
            line["alternatives"] = [other.described() for other in found[1:]]
        click.echo(json.dumps(line, ensure_ascii=False))
        return
    for one in found:
        click.echo(one.translation if n_best == 1 else f"{number}\t{one.score:.3f}\t{one.translation}")
        if show:
            click.echo(f"\n{table(one, shutil.get_terminal_size().columns)}\n")
    if not found:
        click.echo()


def table(one: Translation, columns: int) -> str:
    """The alignment as shades, source across and target down; what is too wide for the terminal goes on below."""
    from rich.cells import cell_len

    heads = [_head(token) for token in one.source_tokens]
    sides = [_head(token) for token in one.target_tokens]
    left = max(map(cell_len, sides), default=0)
    blocks, start = [], 0
    while start < len(heads):
        end, room = start, columns - left
        while end < len(heads) and (end == start or cell_len(heads[end]) + 2 <= room):
            room -= cell_len(heads[end]) + 2
            end += 1
        rows = [" " * left + "".join(f"  {head}" for head in heads[start:end])]
        for side, weights in zip(sides, one.alignment, strict=True):
            # A word that looked everywhere a little looked somewhere most: no row is empty.
            least = [int(weight > 0 and weight == max(weights)) for weight in weights]
            cells = (
                "  " + SHADES[min(len(SHADES) - 1, max(floor, int(weight * len(SHADES))))] * cell_len(head)
                for head, weight, floor in zip(heads[start:end], weights[start:end], least[start:end], strict=True)
            )
            rows.append((side + " " * (left - cell_len(side)) + "".join(cells)).rstrip())
        blocks.append("\n".join(rows))
        start = end
    return "\n\n".join(blocks)


def _head(token: str) -> str:
    return token.removeprefix("▁") or "␣"
