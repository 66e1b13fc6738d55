"""``overt check``: what is wrong with somebody's attention."""

from __future__ import annotations

import json
import os
import sys
import threading
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING, Any

import click

from overt.check.text.roles import LAYOUTS, MASKS
from overt.cli.paths import JUNIT, NAME, SARIF
from overt.errors import ArgumentError, FileError, OvertError

if TYPE_CHECKING:
    from overt.check.report import Failure, Report


@click.command(epilog="Example:  overt check model.py:MultiHeadAttention --json")
@click.argument("targets", nargs=-1, type=NAME, metavar="[FILE.py:NAME|FILE.py|FOLDER]...")
@click.option("--layout", type=click.Choice(LAYOUTS), help="How arrays lie.")
@click.option("--mask", type=click.Choice(MASKS), help="What the mask means.")
@click.option(
    "--argument",
    "arguments",
    multiple=True,
    metavar="NAME=ROLE",
    help="What an argument is, such as a=q; may be repeated.",
)
@click.option(
    "--example",
    nargs=2,
    metavar="MADE ARGUMENTS",
    help="A call that works, such as 'Attention(64, 4)' '(torch.randn(2, 5, 64),)'.",
)
@click.option("--sizes", metavar="AXES", help="Lengths to call it with and no others, such as T=16,W=64,H=4.")
@click.option("--timeout", type=click.FloatRange(min=0.1, max=3600), help="Seconds for a call.  [default: 20]")
@click.option("--deadline", type=click.FloatRange(min=0.1, max=86400), help="Seconds for all.  [default: 300]")
@click.option(
    "--memory",
    type=click.IntRange(min=64, max=1 << 20),
    help="MiB beyond Python and its libraries.  [default: 2048]",
)
@click.option("--json", "as_json", is_flag=True, help="Print JSON.")
@click.option("--junit", type=JUNIT, help="Write JUnit XML here as well.")
@click.option("--sarif", type=SARIF, help="Write SARIF 2.1.0 here as well.")
@click.option("--github", is_flag=True, help="Print annotations for GitHub's workflows as well.")
@click.option("--explain", metavar="ID", help="Say what a finding means, and check nothing.")
def command(
    targets: tuple[str, ...],
    arguments: tuple[str, ...],
    as_json: bool,
    junit: Path | None,
    sarif: Path | None,
    github: bool,
    explain: str | None,
    memory: int | None,
    sizes: str | None,
    **options: Any,
) -> int:
    """Find what is wrong with an implementation of attention.

    NAME is a function, a class or an instance in FILE.py (or module:NAME).  It is run, with your rights, in a
    process of its own, on small problems, and compared with the reference.  Of a file or a folder, all that seems to
    attend is checked.  [tool.overt.check] in pyproject.toml says what is checked where nothing is named.

    Exit code: 0 right, 1 something is wrong, 2 it could not be checked.
    """
    from overt.check import formats
    from overt.check.settings import Settings
    from overt.writing import replaced

    if explain is not None:
        click.echo(_explained(explain))
        return 0
    if as_json and github:
        raise click.UsageError("--github prints lines that are no JSON: leave out --json")
    options |= {"sizes": None if sizes is None else _lengths(sizes)}
    options |= {"arguments": _roles(arguments), "memory": None if memory is None else memory << 20}
    settings = Settings.read()
    named = targets or settings.targets
    if not named:
        raise click.UsageError("name what to check: FILE.py:NAME, a file or a folder")
    reported = bool(as_json or github or junit or sarif)
    found, unread = _targets(named, alone=len(named) == 1 and not reported)
    several = len(found) + len(unread) > 1 or any(searched for _, searched in found)
    reports, failures, skipped = _checked(found, settings, options, alone=not several and not reported)
    failures = unread + failures
    if as_json:
        rows = [entry.to_dict() for entry in reports] + [entry.to_dict() for entry in failures + skipped]
        click.echo(json.dumps(rows if several else rows[0], indent=2))
    elif reports:
        colour = sys.stdout.isatty() and not os.environ.get("NO_COLOR")
        click.echo("\n\n".join(report.text(colour=colour) for report in reports), color=colour)
    if github:
        click.echo(formats.github(reports, failures))
    for failure in (*failures, *skipped):
        click.echo(_printable(f"overt: {failure.target}: {failure.message}"), err=True)
    if junit is not None:
        with replaced(junit) as file:
            file.write(formats.junit(reports, failures, skipped).encode())
    if sarif is not None:
        with replaced(sarif) as file:
            file.write(json.dumps(formats.sarif(reports, failures), indent=2).encode())
    # Of what was only found, and was not understood, nothing is wrong; but something must have been checked.
    return 2 if failures or not reports else 0 if all(report.ok for report in reports) else 1


def _roles(arguments: tuple[str, ...]) -> dict[str, str] | None:
    roles: dict[str, str] = {}
    for pair in arguments:
        name, equals, meaning = pair.partition("=")
        if not (name and equals and meaning):
            raise click.UsageError(f"--argument takes NAME=ROLE, such as a=q, not {pair!r}")
        if roles.setdefault(name, meaning) != meaning:
            raise click.UsageError(f"--argument says that {name} is {roles[name]}, and that it is {meaning}")
    return roles or None


def _lengths(sizes: str) -> dict[str, int]:
    found: dict[str, int] = {}
    for pair in sizes.split(","):
        axis, _, length = pair.partition("=")
        if not length.strip().isdecimal():
            raise click.UsageError(f"--sizes takes lengths by axis, such as T=16,W=64,H=4, not {sizes!r}")
        if found.setdefault(axis.strip(), int(length)) != int(length):
            raise click.UsageError(f"--sizes gives two lengths for {axis.strip()}: {sizes!r}")
    return found


def _targets(named: tuple[str, ...], *, alone: bool) -> tuple[list[tuple[str, bool]], list[Failure]]:
    """What is to be checked, and whether it was found in a file or a folder instead of being named; and what is lost.

    alone: raise what is wrong with the one that is named.
    """
    from overt.check.discovery import discover, files
    from overt.check.report import Failure

    found: list[tuple[str, bool]] = []
    unread: list[Failure] = []
    for name in named:
        if ":" in name and not Path(name).exists():
            found.append((name, False))
            continue
        before = len(found) + len(unread)
        try:
            for file in files(Path(name)):
                try:
                    found += [(target, True) for target in discover(file)]
                except FileError as error:
                    if file == Path(name):
                        raise
                    unread.append(Failure.of(str(file), error))
            if len(found) + len(unread) == before:
                raise ArgumentError(f"nothing in {name} seems to attend: name it, such as {name}:attention")
        except OvertError as error:
            if alone:
                raise
            unread.append(Failure.of(name, error))
    return found, unread


def _checked(
    targets: list[tuple[str, bool]], settings: Any, options: dict[str, Any], *, alone: bool
) -> tuple[list[Report], list[Failure], list[Failure]]:
    """Reports, what could not be checked, and what of that was only found; ``alone`` raises what is wrong with it."""
    from overt.check.checking import check
    from overt.check.report import Failure

    reports: list[Report] = []
    failures: list[Failure] = []
    skipped: list[Failure] = []
    for number, (target, searched) in enumerate(targets):
        mine, ignored = settings.of(target, **options)
        try:
            with _progress(f"{number + 1}/{len(targets)} {target}" if len(targets) > 1 else target):
                reports.append(check(target, **mine).without(ignored))
        except OvertError as error:
            if alone:
                raise
            failure = Failure.of(target, error)
            (skipped if searched and failure.kind == "call" else failures).append(failure)
    return reports, failures, skipped


@contextmanager
def _progress(what: str) -> Iterator[None]:
    """What is being checked and for how long, on a terminal's standard error, where it takes more than a second."""
    if sys.stderr is None or not sys.stderr.isatty():
        yield
        return
    done = threading.Event()
    start = time.monotonic()

    def show() -> None:
        shown = False
        while not done.wait(1.0):
            shown = True
            click.echo(f"\r\x1b[K{_printable(what)} … {time.monotonic() - start:.0f} s", err=True, nl=False)
        if shown:
            click.echo("\r\x1b[K", err=True, nl=False)

    thread = threading.Thread(target=show, daemon=True)
    thread.start()
    try:
        yield
    finally:
        done.set()
        thread.join()


def _printable(text: str) -> str:
    return "".join(c if c.isprintable() else "�" for c in text)


def _explained(name: str) -> str:
    """What a finding means, how to mend it, and where it was seen."""
    from difflib import get_close_matches

    from overt.check.mistakes import MISTAKES, SYMPTOMS

    known = MISTAKES.get(name) or SYMPTOMS.get(name)
    if known is None:
        near = get_close_matches(name, [*MISTAKES, *SYMPTOMS], 4, 0.5)
        meant = f"did you mean {', '.join(near)}?" if near else "docs/check.md has all"
        raise ArgumentError(f"no finding is called {name}: {meant}")
    told = [(f"mend      {known.mend}", known.mend), (f"seen in   {known.evidence}", known.evidence)]
    return "\n".join([f"{name}  ({known.kind})", f"  {known.says}", *(f"  {line}" for line, there in told if there)])
