"""``overt record``: what a model on disk attends to."""

from __future__ import annotations

import sys
from contextlib import redirect_stdout
from pathlib import Path
from typing import TYPE_CHECKING, Any

import click

from overt.cli.paths import LINES, NAME, PAGE, SAVED
from overt.cli.printed import in_json
from overt.cli.show import lines
from overt.errors import ArgumentError, DependencyError

if TYPE_CHECKING:
    import numpy as np

    from overt.torch.record import Recorded, Recording
    from overt.torch.record.sources import Source

_EXAMPLES = """\b
Examples:
  overt record models/SmolLM2-135M "The capital of France is"
  overt record models/SmolLM2-135M "The capital of France is" --generate 8 --page france.html
  overt record models/bert "It was too tired." --layers "*.layer.3.*" --json
  overt record my_models:tiny
"""
# Heads that are printed, and keys of each.
_HEADS, _KEYS = 8, 3
# What would be 0 % is not printed.
_LEAST = 0.005
# Tokens that an encoder–decoder writes unless it is told how many.
_WRITTEN = 20


@click.command(epilog=_EXAMPLES)
@click.argument("what", type=NAME, metavar="FOLDER")
@click.argument("text", required=False)
@click.option("--generate", type=click.IntRange(0), metavar="N", help="Let the model write N tokens, recorded too.")
@click.option("--layers", multiple=True, metavar="GLOB", help='Record these modules alone, such as "*.self_attn".')
@click.option("--tokens", type=LINES, help="Names of the tokens, one a line.")
@click.option("--page", type=PAGE, help="Write one HTML file that needs no network.")
@click.option("--save", type=SAVED, help="Write the recording as .npz.")
@click.option("--json", "as_json", is_flag=True, help="Print JSON for programs.")
def command(
    what: str,
    text: str | None,
    generate: int | None,
    layers: tuple[str, ...],
    tokens: Path | None,
    page: Path | None,
    save: Path | None,
    as_json: bool,
) -> None:
    """Record what a model attends to while it reads TEXT, on its own kernels.

    FOLDER is a Hugging Face model on disk, with its weights in safetensors; nothing is fetched, and no code of the
    folder runs.  Or it is module:factory, a function that gets TEXT, if there is one, and returns a model and its
    inputs.  Printed are a table of the layers, one of their heads, and what the last token looked at.
    """
    try:
        from overt.torch.record import record, sources
    except ImportError as error:
        raise DependencyError(str(error)) from None
    given = lines(tokens)
    # What others' code prints is no result.
    with redirect_stdout(sys.stderr):
        if ":" in what and not Path(what).exists():
            source = sources.factory(what, text)
        elif text is None:
            raise ArgumentError(f'there is no text to read: overt record {what} "some text"')
        else:
            source = sources.folder(Path(what), text)
        if generate is None and source.both:
            generate = _WRITTEN
        with record(source.model, layers=list(layers) or None) as rec:
            written = source.run(generate)
    if given is not None:
        sizes = sorted({size for name in rec for size in rec[name].problem.shape.full[-2:]})
        if len(given) not in sizes:
            counts = ", ".join(map(str, sizes))
            raise ArgumentError(f"{tokens} names {len(given)} tokens, but there are {counts}: give one name a line")
    names = _Names(source, written, given)
    wrote = []
    if page is not None:
        wrote.append(rec.page(page, names.tokens, names.queries, title=text or what))
    if save is not None:
        wrote.append(rec.save(save))
    special = set(getattr(source.tokenizer, "all_special_ids", ()))
    measured = rec.measures(special=special)
    last = [found for name in rec for found in _looked_at(rec[name], name, names)]
    last.sort(key=lambda found: -found["keys"][0]["weight"])
    if as_json:
        attentions = [_described(rec, name) | {"heads": measured[name].as_dict()} for name in rec]
        everything = {
            "model": what,
            "text": text,
            "tokens": names.tokens,
            "written": names.text,
            "attentions": attentions,
            "last": last,
            "without": rec.without,
            "unseen": rec.unseen,
        }
        click.echo(in_json(everything))
        return
    from rich.cells import cell_len
    from rich.console import Console

    from overt.cli import heads
    from overt.torch.record import table
    from overt.views import paper
    from overt.views.labels import readable

    sheet = paper.of(Console(highlight=False, soft_wrap=True))
    if names.text is not None:
        click.echo(f"{readable(names.text)}\n")
    click.echo(table.text(rec, sheet.width if sheet.console.is_terminal else None) + "\n")
    for shades in heads.lines(measured, sheet):
        sheet.console.print(shades)
    # An encoder and a decoder end at different tokens.
    queries = {_placed(found["query"]) for found in last}
    one = f", {queries.pop()}," if len(queries) == 1 else ""
    click.echo(f"\nwhat the last token{one} looked at, beyond the first (token@position):")
    # In a window a line is to stay one.
    heaviest = [found["name"] or "(model)" for found in last[:_HEADS]]
    called = table.shortened(heaviest, sheet.width // 3) if sheet.console.is_terminal else heaviest
    places = max(len(str(found["head"])) for found in last[:_HEADS])
    for name, found in zip(called, last, strict=False):
        shown = [key for key in found["keys"] if key["weight"] >= _LEAST] or found["keys"][:1]
        who = "" if one else f", {_placed(found['query'])}"
        line = f"  {name} head {found['head']:>{places}}{who}:"
        for i, key in enumerate(shown):
            added = f"{',' if i else ' '} {_placed(key)} {key['weight']:.0%}"
            if i and sheet.console.is_terminal and cell_len(line + added) > sheet.width:
                break
            line += added
        click.echo(line)
    for path in wrote:
        click.echo(f"wrote {path} ({path.stat().st_size:,} bytes)")


class _Names:
    """Names of keys and queries, as far as they are known, and what was written."""

    def __init__(self, source: Source, written: Any, given: list[str] | None) -> None:
        self.tokens, self.queries, self.text = given, None, None
        ids = source.inputs.get("input_ids")
        if source.tokenizer is not None and ids is not None:
            if given is None:
                # The last token that is written attends to nothing.
                whole = ids if written is None or source.both else written[:, :-1]
                self.tokens = source.words(whole[0])
            if written is not None:
                new = written[0] if source.both else written[0, ids.shape[1] :]
                self.text = str(source.tokenizer.decode(new, skip_special_tokens=True))
                if source.both:
                    self.queries = source.words(written[0, :-1])
        elif written is not None:
            self.text = " ".join(str(i) for i in written[0].tolist())

    def query(self, t: int, T: int) -> str:
        """Name of a query of an attention with T of them."""
        for names in (self.queries, self.tokens):
            if names is not None and len(names) == T:
                return names[t]
        return str(t)

    def key(self, s: int, S: int) -> str:
        """Name of a key of an attention with S of them."""
        for names in (self.tokens, self.queries):
            if names is not None and len(names) == S:
                return names[s]
        return str(s)


def _looked_at(seen: Recorded, name: str, names: _Names) -> list[dict[str, Any]]:
    """For each head the keys that the last query looked at, but for the first that anybody sees."""
    row: np.ndarray = seen.weights[0, :, -1]
    start, T = int(seen.start[0]), seen.problem.shape.T
    query = {"query": T - 1, "token": names.query(T - 1, T)}
    found = []
    for head, weights in enumerate(row):
        order = [int(s) for s in (-weights).argsort(kind="stable")[: _KEYS + 1] if s != start or len(weights) == 1]
        keys = [
            {"key": s, "token": names.key(s, len(weights)), "weight": round(float(weights[s]), 6)}
            for s in order[:_KEYS]
        ]
        share = round(float(weights[start]), 6)
        found.append({"name": name, "head": head, "query": query, "first": share, "keys": keys})
    return found


def _placed(token: dict[str, Any]) -> str:
    """A key or query as its token and its position, which tells equal words apart."""
    from overt.views.labels import readable

    place, word = token.get("key", token.get("query")), token["token"]
    return f"{readable(word.strip() or word)}@{place}" if word != str(place) else f"@{place}"


def _described(rec: Recording, name: str) -> dict[str, Any]:
    seen = rec[name]
    shape = seen.problem.shape
    return {"name": name, "way": seen.way, "shape": list(shape.full), "calls": seen.steps, "deviation": seen.deviation}
