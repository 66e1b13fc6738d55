"""``overt show``: attention in the terminal, as a page, a figure or data."""

from __future__ import annotations

import json
import operator
import warnings
from collections.abc import Callable
from contextlib import nullcontext
from dataclasses import replace
from functools import reduce
from math import prod
from pathlib import Path

import click
import numpy as np
from click.core import ParameterSource

from overt.attended import Attended
from overt.cli.progress import progress
from overt.errors import ArgumentError
from overt.masks import Mask, causal, window
from overt.problem import Problem
from overt.scores import scaled_dot
from overt.trace import trace
from overt.views.files import load
from overt.views.labels import Labelled, readable
from overt.views.lessons import LESSONS
from overt.views.view import View
from overt.writing import streamed

# Cells of which an overview takes more than a few seconds.
_MANY = 1 << 33
_EXAMPLES = """\b
Examples:
  overt show my-name-is-john
  overt show my-name-is-john --page john.html
  overt show qkv.npz --causal --tokens tokens.txt --head 3
  overt show "I love you." --model en-zh --name cross --page love.html
  overt show before.npz after.npz --page both.html
  overt show seen --page seen.html    # what overt attend -o seen has written
"""


# Where attention goes, and which options say how: the terminal is where nothing else is asked for.
_READS = {
    "page": (),
    "figure": ("kind", "head", "row"),
    "save": (),
    "csv": ("top",),
    "as_json": ("top",),
    "terminal": ("head", "row", "query"),
}
_SECTIONS = {
    "What is shown": ("models", "layer", "name", "is_causal", "tokens", "queries", "steps"),
    "Where it goes, by default to the terminal; these go together": [way for way in _READS if way != "terminal"],
    "How": ("head", "row", "query", "kind", "top"),
}


class _Sectioned(click.Command):
    """A command whose options are listed by what they are for."""

    def format_options(self, ctx: click.Context, formatter: click.HelpFormatter) -> None:
        every = (option for option in self.get_params(ctx) if isinstance(option, click.Option))
        options = {option.name: record for option in every if (record := option.get_help_record(ctx))}
        for title, names in _SECTIONS.items():
            with formatter.section(title):
                formatter.write_dl([options.pop(name) for name in names])
        with formatter.section("Options"):
            formatter.write_dl(list(options.values()))


def _given(context: click.Context) -> list[str]:
    """The options that somebody gave."""
    return [name for name in context.params if context.get_parameter_source(name) is not ParameterSource.DEFAULT]


def _refuse_unread(context: click.Context) -> None:
    """Raise ArgumentError for an option that no chosen way out reads."""
    ways = [way for way in _READS if context.params.get(way)] or ["terminal"]
    flags = {option.name: option.opts[-1] for option in context.command.params}
    for name in _given(context):
        if name in _SECTIONS["How"] and not any(name in _READS[way] for way in ways):
            readers = [flags.get(way, "what is printed") for way, reads in _READS.items() if name in reads]
            raise ArgumentError(f"{flags[name]} is for {' or '.join(readers)}, which is not asked for: leave it out")


def _first(lesson: Callable[[], View]) -> str:
    """The first line about a lesson; python -OO leaves none."""
    return (lesson.__doc__ or "").partition("\n")[0]


def _epilog() -> str:
    lessons = "\n".join(f"  {name:<18}{_first(make)}" for name, make in LESSONS.items())
    return f"{_EXAMPLES}\n\b\nLessons:\n{lessons}"


@click.command(cls=_Sectioned, epilog=_epilog())
@click.argument("what", nargs=-1)
@click.option(
    "-m",
    "--model",
    "models",
    multiple=True,
    help="Translate WHAT with a bundled model or a checkpoint; again: another.",
)
@click.option("--layer", type=int, help="Show this layer alone.")
@click.option("--name", help="Show attentions of this name alone, such as encoder, decoder or cross.")
@click.option("--causal", "is_causal", is_flag=True, help="Let no query look at keys after its own position.")
@click.option("--tokens", type=click.Path(path_type=Path), help="Other names for the keys, one a line.")
@click.option("--queries", type=click.Path(path_type=Path), help="Other names for the queries.")
@click.option("--steps", is_flag=True, help="Show every step of one attention, not its result.")
@click.option("--head", type=int, help="Print or draw one query head.")
@click.option("--row", type=int, default=0, show_default=True, help="Print or draw this row of the batch.")
@click.option("--query", type=int, help="Print what one query, or generation step, looked at.")
@click.option("--page", type=click.Path(path_type=Path), help="Write one HTML file that needs no network.")
@click.option("--figure", type=click.Path(path_type=Path), help="Draw a .png, .svg or .pdf (needs matplotlib).")
@click.option(
    "--kind", default="map", show_default=True, help="Which figure: map, heads, alignment, entropy, received, variance."
)
@click.option("--save", type=click.Path(path_type=Path), help="Write q, k, v, results and tokens as .npz.")
@click.option("--csv", type=click.Path(path_type=Path), help="Write the heaviest keys of every query.")
@click.option(
    "--top", type=click.IntRange(1), default=5, show_default=True, help="How many of them, for --csv and --json."
)
@click.option("--json", "as_json", is_flag=True, help="Print JSON for programs.")
@click.pass_context
def command(
    context: click.Context,
    what: tuple[str, ...],
    models: tuple[str, ...],
    layer: int | None,
    name: str | None,
    is_causal: bool,
    tokens: Path | None,
    queries: Path | None,
    steps: bool,
    head: int | None,
    row: int,
    query: int | None,
    page: Path | None,
    figure: Path | None,
    kind: str,
    save: Path | None,
    csv: Path | None,
    top: int,
    as_json: bool,
) -> None:
    """Show attention: a lesson by name, a file, or a translation.

    Without a name, the lessons are listed.  Several, or several models, stand beside each other, to be compared.
    An .npz or .safetensors file has q, k and v, or weights, and may also hold mask, bias, sinks, softcap, scale and
    tokens; an .npy file has weights.
    Attention is printed where no option writes it.
    """
    _refuse_unread(context)
    if models and not what:
        raise ArgumentError(f'there is no text to translate: overt show "I love you." --model {models[0]}')
    if not what and _given(context):
        raise ArgumentError("there is nothing named to show: overt show without options lists the lessons")
    if not what:
        for lesson, make in LESSONS.items():
            click.echo(f"{lesson:<18}{_first(make)}")
        return
    mask = causal() if is_causal else None
    views = [_of(one, model, mask) for one in what for model in models or (None,)]
    if len(models) > 1:
        for view, model in zip(views, models * len(what), strict=True):
            view.title = f"{model}: {view.title}"
    view = views[0].beside(*views[1:]) if len(views) > 1 else views[0]
    view = _named(view.only(layer=layer, name=name), lines(tokens), lines(queries))
    if steps and view.trace is None:
        if len(view.parts) > 1:
            raise ArgumentError(
                f"--steps shows one attention, and there are {len(view.parts)}: choose one with --layer and --name"
            )
        view.trace = trace(view.parts[0].problem)
    cells = sum(prod(part.problem.shape.full) for part in view.parts)
    paged = None
    if page:
        with progress() if cells > _MANY else nullcontext() as report:
            paged = view.page(page, report=report)
    written = [
        paged,
        _drawn(view, kind, figure, head, row) if figure else None,
        view.save(save) if save else None,
        view.csv(csv, top) if csv else None,
    ]
    if as_json:
        click.echo(json.dumps(view.as_dict(top), ensure_ascii=False, allow_nan=False))
    elif any(written):
        for path in filter(None, written):
            # What goes to /dev/stdout or into a pipe is there for a program that wants nothing else.
            if not streamed(path):
                click.echo(f"wrote {path} ({path.stat().st_size:,} bytes)")
    else:
        if models:
            click.echo(f"{readable(view.title)}\n")
        view.print(head=head, row=row, query=query)


def _of(what: str, model: str | None, mask: Mask | None) -> View:
    """A lesson, a file, or the translation of a text."""
    if model:
        return _hidden(_of_translation(what, model), mask)
    if what in LESSONS:
        return _hidden(LESSONS[what](), mask)
    if Path(what).suffix in (".npz", ".npy", ".safetensors"):
        # Computed once, with this mask.
        return View(load(what, mask=mask), title=Path(what).stem)
    if Path(what).is_dir():
        return _hidden(_attended(Path(what)), mask)
    if Path(what).is_file():
        raise ArgumentError(
            f"{what} is no .npz, .npy or .safetensors file: numpy.savez('x.npz', weights=w), or q=q, k=k"
        )
    raise ArgumentError(
        f"there is no file, folder or lesson {what!r:.60}: overt show lists the lessons, and with --model en-zh it "
        "translates a text"
    )


def _attended(folder: Path) -> View:
    """What ``overt attend`` has written to a folder, with the files that it was given."""
    from overt import files

    stored = files.Stored.of(folder)
    try:
        asked = json.loads((folder / "asked.json").read_text("utf-8"))
        given = [np.load(folder / asked[name], mmap_mode="r", allow_pickle=False) for name in "qkv"]
        masks: list[Mask] = [window(*asked["window"])] if asked["window"] else []
        masks += [causal()] if asked["causal"] else []
        score, softcap = scaled_dot(asked["scale"]), asked["softcap"]
    except (OSError, ValueError, KeyError, TypeError) as error:
        raise ArgumentError(f"{folder} does not say what it was made of ({error}): run overt attend again") from None
    mask = reduce(operator.and_, masks) if masks else None
    problem = Problem.of(*given, score=score, mask=mask, softcap=softcap)
    shape, E = problem.shape, problem.v.shape[-1]
    if stored.rows != range(shape.T):
        raise ArgumentError(
            f"{folder} holds the rows {stored.rows.start}:{stored.rows.stop} of {shape.T}: leave out --rows to show it"
        )
    whole = (shape.B, shape.H, shape.T)
    found = stored.output.reshape(*whole, E), stored.lse.reshape(whole)
    return View(Attended(problem, found), title=folder.name)


def _hidden(view: View, mask: Mask | None) -> View:
    """The same attention where a mask hides keys as well."""
    if mask is None:
        return view
    problems = [replace(p.problem, mask=mask if p.problem.mask is None else p.problem.mask & mask) for p in view.parts]
    changed = View([replace(p, seen=Attended(x)) for p, x in zip(view.parts, problems, strict=True)], title=view.title)
    changed.trace = None if view.trace is None else trace(problems[0])
    return changed


def _named(view: View, tokens: list[str] | None, queries: list[str] | None) -> View:
    """The same attention with other names."""
    parts = [replace(p, tokens=tokens or p.tokens, queries=queries or p.queries) for p in view.parts]
    named = View(parts, title=view.title)
    named.trace = view.trace
    return named


def _of_translation(text: str, model: str) -> View:
    """Every attention of a translation; its decoder is named by what each step wrote."""
    from overt.models import load as translator
    from overt.models.vocabulary import END, SPECIAL, START

    used = translator(model)
    # Unknown tokens stay as they are, for it is these that the decoder read.
    one = used.translate([text], replace_unknown=False)[0][0]
    source, written = [*one.source_tokens, SPECIAL[END]], [*one.target_tokens, SPECIAL[END]]
    names = {
        "encoder": (source, source, None),
        "decoder": ([SPECIAL[START], *one.target_tokens], written, 0),
        "cross": (source, written, 0),
    }
    parts = [
        Labelled(seen, *names[name][:2], name, layer, names[name][2])
        for name, several in used.attentions(one).items()
        for layer, seen in enumerate(several)
    ]
    return View(parts, title=f"{text} → {one.translation}")


def _drawn(view: View, kind: str, path: Path, head: int | None, row: int) -> Path:
    from overt.views.figure import write

    with warnings.catch_warnings(record=True) as said:
        warnings.simplefilter("always", UserWarning)
        written = write(view.figure(kind, head=head, row=row), path)
    for one in said:
        click.echo(f"overt: {one.message}", err=True)
    return written


def lines(path: Path | None) -> list[str] | None:
    """The lines of a file, None for no file."""
    if path is None:
        return None
    try:
        return path.read_text("utf-8").removesuffix("\n").split("\n")
    except (OSError, UnicodeDecodeError) as error:
        raise ArgumentError(f"cannot read {path}: {error}") from None
