"""overt translate."""

from __future__ import annotations

import sys
from collections.abc import Iterator
from itertools import islice
from typing import TYPE_CHECKING

import click
import numpy as np

from overt.cli.paths import NAME
from overt.cli.printed import in_json
from overt.errors import ArgumentError, FileError

if TYPE_CHECKING:
    from overt.models import Translation

# Lines that are read before the first of them is translated.
_AT_ONCE = 64


@click.command()
@click.argument("text", nargs=-1)
@click.option(
    "-m", "--model", default="en-zh", show_default=True, type=NAME, help="A bundled model, or the path of a checkpoint."
)
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
                click.echo(
                    f"overt: {name} is cut at {max(cut)} token{'s' * (max(cut) > 1)}: --max-length allows for more",
                    err=True,
                )
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
        click.echo(in_json(line))
        return
    for one in found:
        click.echo(one.translation if n_best == 1 else f"{number}\t{one.score:.3f}\t{one.translation}")
        if show:
            _show(one)
    if not found:
        click.echo()


def _show(one: Translation) -> None:
    """Print where each token looked; too wide a word is cut by the window, and not wrapped into the next line."""
    from rich.console import Console

    from overt.views import alignment, paper

    console = Console(highlight=False)
    sheet = paper.of(console)
    console.print()
    console.print(alignment.table(one.source_tokens, one.target_tokens, one.alignment, sheet), soft_wrap=True)
    console.print(alignment.legend(sheet), end="\n\n")
