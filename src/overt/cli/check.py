"""``overt check``: what is wrong with somebody's attention."""

from __future__ import annotations

import json
import os
import sys
from pathlib import Path

import click

from overt.check.roles import LAYOUTS, MASKS
from overt.errors import OvertError


@click.command(epilog="Example:  overt check model.py:MultiHeadAttention --json")
@click.argument("targets", nargs=-1, required=True, metavar="FILE.py:NAME...")
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
    "--timeout",
    type=click.FloatRange(min=0.1, max=3600),
    default=20.0,
    show_default=True,
    help="Seconds for an answer.",
)
@click.option(
    "--memory",
    type=click.IntRange(min=64, max=1 << 20),
    default=2048,
    show_default=True,
    help="MiB beyond Python and its libraries.",
)
@click.option("--json", "as_json", is_flag=True, help="Print JSON.")
@click.option("--junit", type=click.Path(dir_okay=False, path_type=Path), help="Write JUnit XML here as well.")
def command(
    targets: tuple[str, ...],
    layout: str | None,
    mask: str | None,
    arguments: tuple[str, ...],
    timeout: float,
    memory: int,
    as_json: bool,
    junit: Path | None,
) -> int:
    """Find what is wrong with an implementation of attention.

    NAME is a function, a class or an instance in FILE.py (or module:NAME).  It is run, with your rights, in a
    process of its own, on small problems, and compared with the reference.

    Exit code: 0 right, 1 something is wrong, 2 it could not be checked.
    """
    from overt.check.checking import check
    from overt.check.report import Report
    from overt.check.report import junit as xml
    from overt.writing import replaced

    roles = {}
    for pair in arguments:
        name, equals, meaning = pair.partition("=")
        if not (name and equals and meaning):
            raise click.UsageError(f"--argument takes NAME=ROLE, such as a=q, not {pair!r}")
        roles[name] = meaning
    reports: list[Report] = []
    failed = False
    for target in targets:
        try:
            reports.append(
                check(target, layout=layout, mask=mask, arguments=roles, timeout=timeout, memory=memory << 20)
            )
        except OvertError as error:
            if len(targets) == 1:
                raise
            failed = True
            click.echo(f"overt: {target}: {' '.join(str(error).split())}", err=True)
    if as_json:
        several = [{"target": report.target, **report.to_dict()} for report in reports]
        click.echo(json.dumps(several if len(targets) > 1 else reports[0].to_dict(), indent=2))
    else:
        colour = sys.stdout.isatty() and not os.environ.get("NO_COLOR")
        click.echo("\n\n".join(report.text(colour=colour) for report in reports), color=colour)
    if junit is not None:
        with replaced(junit) as file:
            file.write(xml(reports).encode())
    return 2 if failed else 0 if all(report.ok for report in reports) else 1
