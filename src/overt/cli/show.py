"""``overt show``: attention in the terminal, as a page, a figure or data."""

from __future__ import annotations

import json
import os
import warnings
from collections.abc import Callable
from contextlib import nullcontext
from dataclasses import replace
from functools import wraps
from math import prod
from pathlib import Path
from typing import Any

import click

from overt.attended import Attended
from overt.cli.attend import masked, stamp
from overt.cli.paths import LINES, NAME, WRITTEN
from overt.cli.printed import in_json
from overt.cli.progress import progress
from overt.errors import ArgumentError, FileError, OvertError
from overt.masks import Mask, causal
from overt.problem import Problem
from overt.scores import scaled_dot
from overt.trace import trace
from overt.views.files import load
from overt.views.labels import Labelled, readable
from overt.views.lessons import LESSONS
from overt.views.view import View
from overt.writing import replaced, streamed

# Cells of which an overview takes more than a few seconds.
_MANY = 1 << 33
_EXAMPLES = """\b
Examples:
  overt show my-name-is-john
  overt show qkv.npz --causal --tokens tokens.txt --head 3
  overt show page "I love you." --model en-zh -o love.html
  overt show figure qkv.npz --causal -o map.svg
  overt show data qkv.npz --top 10 -o heaviest.csv
"""
# What a flag of one way out is called elsewhere.
_SPELLED = {
    "--page": "page WHAT -o FILE.html",
    "--figure": "figure WHAT -o FILE.svg",
    "--save": "data WHAT -o FILE.npz",
    "--csv": "data WHAT -o FILE.csv",
    "--json": "data WHAT",
}


class _Way(click.Command):
    """A way out that says which of the others has an option that it lacks."""

    def parse_args(self, ctx: click.Context, args: list[str]) -> list[str]:
        try:
            return super().parse_args(ctx, args)
        except click.NoSuchOption as error:
            name = error.option_name
            having = [other for other, way in command.commands.items() if any(name in one.opts for one in way.params)]
            if name not in _SPELLED and not having:
                raise
            said = _SPELLED.get(name, f"{' or '.join(having)} has it")
            raise click.UsageError(f"No such option: {name}: overt show {said}", ctx) from None


class _Ways(click.Group):
    """Commands of which the first is meant where none is named."""

    command_class = _Way

    def list_commands(self, ctx: click.Context) -> list[str]:
        return list(self.commands)

    def parse_args(self, ctx: click.Context, args: list[str]) -> list[str]:
        own = {name for option in self.get_params(ctx) for name in option.opts}
        first = next((i for i, arg in enumerate(args) if arg not in own), None)
        if first is not None and args[first] not in self.commands:
            args.insert(first, next(iter(self.commands)))
        return super().parse_args(ctx, args)

    def format_epilog(self, ctx: click.Context, formatter: click.HelpFormatter) -> None:
        super().format_epilog(ctx, formatter)
        with formatter.section("Lessons"):
            formatter.write_dl(_lessons())


def _lessons() -> list[tuple[str, str]]:
    """The lessons, and the first line about each; python -OO leaves none."""
    return [(name, (make.__doc__ or "").partition("\n")[0]) for name, make in LESSONS.items()]


@click.group(
    cls=_Ways,
    invoke_without_command=True,
    subcommand_metavar="[terminal|page|figure|data] WHAT...",
    epilog=_EXAMPLES,
)
@click.pass_context
def command(context: click.Context) -> None:
    """Show attention: a lesson by name, a file, or a translation.

    It is printed, unless a page, a figure or data are asked for.  Without anything, the lessons are listed.

    An .npz or .safetensors file has q, k and v, or weights, and may also hold mask, bias, sinks, softcap, scale and
    tokens; an .npy file has weights; a folder is what overt attend wrote.  With --model, WHAT is a text to translate.
    Several stand beside each other, to be compared.  What is called like a command is written ./page.
    """
    if context.invoked_subcommand is None:
        formatter = context.make_formatter()
        formatter.write_dl(_lessons())
        click.echo(formatter.getvalue(), nl=False)


def _shown(function: Callable[..., None]) -> Callable[..., None]:
    """Options that say what is shown; the function is called with it."""

    @click.argument("what", nargs=-1, required=True)
    @click.option(
        "-m",
        "--model",
        "models",
        multiple=True,
        type=NAME,
        help="Translate WHAT with a bundled model or a checkpoint; again: another.",
    )
    @click.option("--layer", type=int, help="Show this layer alone.")
    @click.option("--name", help="Show attentions of this name alone, such as encoder, decoder or cross.")
    @click.option("--causal", "is_causal", is_flag=True, help="Let no query look at keys after its own position.")
    @click.option("--tokens", type=LINES, help="Other names for the keys, one a line.")
    @click.option("--queries", type=LINES, help="Other names for the queries.")
    @wraps(function)
    def run(
        *,
        what: tuple[str, ...],
        models: tuple[str, ...],
        layer: int | None,
        name: str | None,
        is_causal: bool,
        tokens: Path | None,
        queries: Path | None,
        steps: bool = False,
        **how: Any,
    ) -> None:
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
        function(view, **how)

    return run


def _to(written: str) -> Callable[[Callable[..., None]], Callable[..., None]]:
    """The file that a command writes, and what it is."""
    return click.option("-o", "--output", type=WRITTEN, metavar="FILE", required=True, help=written)


_log = click.option("--log", is_flag=True, help="Shade by decades, to see what is faint; else linear from 0 to 1.")
_steps = click.option("--steps", is_flag=True, help="Show every step of one attention, not its result.")


@command.command(epilog='Example:  overt show "I love you." --model en-zh --name cross --layer 2 --query 1')
@click.option("--head", type=int, help="Print one query head.")
@click.option("--row", type=int, default=0, show_default=True, help="Print this row of the batch.")
@click.option("--query", type=int, help="Print what one query, or generation step, looked at.")
@_log
@_steps
@_shown
def terminal(view: View, head: int | None, row: int, query: int | None, log: bool) -> None:
    """Print tables, shades and the strongest pairs; what overt show WHAT does."""
    if click.get_current_context().params["models"]:
        click.echo(f"{readable(view.title)}\n")
    view.print(head=head, row=row, query=query, log=log)


@command.command(
    epilog="""\b
Examples:
  overt show page "I love you." --model en-zh -o love.html
  overt show page before.npz after.npz -o both.html
  overt show page seen -o seen.html    # what overt attend -o seen has written
"""
)
@_to("The HTML file that is written.")
@_steps
@_shown
def page(view: View, output: Path) -> None:
    """Write one HTML file that needs no network."""
    cells = sum(prod(part.problem.shape.full) for part in view.parts)
    with progress() if cells > _MANY else nullcontext() as report:
        view.page(output, report=report)
    _wrote(output)


@command.command(epilog='Example:  overt show figure "I love you." --model en-zh --kind alignment --head 0 -o love.png')
@_to("The .png, .svg or .pdf that is written.")
@click.option("--kind", default="map", show_default=True, help="map, heads, alignment, entropy, received or variance.")
@click.option("--head", type=int, help="Draw one query head.")
@click.option("--row", type=int, default=0, show_default=True, help="Draw this row of the batch.")
@_log
@_shown
def figure(view: View, output: Path, kind: str, head: int | None, row: int, log: bool) -> None:
    """Draw it with matplotlib (pip install 'overt[plot]')."""
    from overt.views.figure import write

    with warnings.catch_warnings(record=True) as said:
        warnings.simplefilter("always", UserWarning)
        write(view.figure(kind, head=head, row=row, log=log), output)
    for one in said:
        click.echo(f"overt: {one.message}", err=True)
    _wrote(output)


@command.command(
    epilog="""\b
Examples:
  overt show data qkv.npz --causal | jq .attentions[0].received
  overt show data qkv.npz --top 10 -o heaviest.csv
  overt show data "I love you." --model en-zh -o love.npz
"""
)
@click.option("-o", "--output", type=WRITTEN, metavar="FILE", help="By default standard output, as JSON.")
@click.option(
    "--format",
    "kind",
    type=click.Choice(["json", "csv", "npz"]),
    help="By default what the name of FILE ends in.  csv: the heaviest keys of every query; json: also entropy, "
    "received attention and steps; npz: q, k, v, results and tokens, for overt show.",
)
@click.option(
    "--top", type=click.IntRange(1), default=5, show_default=True, help="How many keys of every query, in json and csv."
)
@_steps
@_shown
def data(view: View, output: Path | None, kind: str | None, top: int) -> None:
    """Write it for programs: JSON, CSV or NumPy's arrays."""
    path = output or Path("/dev/stdout")
    if kind is None:
        kind = "json" if path == Path("/dev/stdout") else path.suffix.removeprefix(".")
    if kind == "json":
        text = in_json(view.as_dict(top))
        if output is None:
            click.echo(text)
        else:
            with replaced(output) as file:
                file.write(f"{text}\n".encode())
    elif kind == "csv":
        view.csv(path, top)
    elif kind != "npz":
        raise ArgumentError(f"the name of {output} does not say what it shall hold: give --format json, csv or npz")
    elif output is None:
        raise ArgumentError("an .npz is no text: give it a file, -o FILE.npz")
    else:
        view.save(output)
    _wrote(path)


def _wrote(path: Path) -> None:
    # What goes to /dev/stdout or into a pipe is there for a program that wants nothing else.
    if not streamed(path):
        click.echo(f"wrote {path} ({path.stat().st_size:,} bytes)")


def _of(what: str, model: str | None, mask: Mask | None) -> View:
    """A lesson, a file, or the translation of a text."""
    if model:
        return _hidden(_of_translation(what, model), mask)
    if not what:
        raise ArgumentError("the path is empty: name a file, a folder or a lesson")
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
        if asked.get("identity", "") != stored.identity:
            raise ArgumentError("asked.json is of another run")
        paths = {name: folder / asked[name] for name in "qkv"}
        mask, score, softcap = masked(asked["causal"], asked["window"]), scaled_dot(asked["scale"]), asked["softcap"]
        # Earlier versions wrote none.
        before = asked.get("stamps", {})
        changed = [os.path.normpath(path) for name, path in paths.items() if before and stamp(path) != before[name]]
    except (OSError, ValueError, KeyError, TypeError, AttributeError) as error:
        raise ArgumentError(f"{folder} does not say what it was made of ({error}): run overt attend again") from None
    given = [files.mapped(path) for path in paths.values()]
    try:
        problem = Problem.of(*given, score=score, mask=mask, softcap=softcap)
        # Copies have other stamps: there, every number decides.
        top = 0 if stored.indices is None else stored.indices.shape[-1]
        same = not changed or files.identity(problem, stored.rows, top) == stored.identity
    except OvertError:
        if not changed:
            raise
        same = False
    if not same:
        raise FileError(
            f"{' and '.join(changed)} changed since overt attend made {folder}: run it again, with --overwrite"
        )
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


def lines(path: Path | None) -> list[str] | None:
    """The lines of a file, None for no file."""
    if path is None:
        return None
    try:
        return path.read_text("utf-8").removesuffix("\n").split("\n")
    except UnicodeDecodeError as error:
        raise ArgumentError(f"cannot read {path}: not UTF-8 ({error.reason} at byte {error.start})") from None
    except OSError as error:
        raise ArgumentError(f"cannot read {path}: {error.strerror or error}") from None
