"""overt models."""

from __future__ import annotations

import click

from overt.cli.printed import in_json


@click.command()
@click.option("--json", "as_json", is_flag=True, help="One JSON object a line.")
def command(as_json: bool) -> None:
    """List the models inside the package.

    \b
    overt models
    """  # noqa: D301, click reads \b
    from overt.models import bundled, load

    for name in bundled():
        found = load(name).checkpoint
        size = sum(array.size for array in found.parameters.values())
        if as_json:
            click.echo(in_json({"name": name, "parameters": size, **found.card}))
        else:
            kind = type(found.model).__name__.lower()
            scores = "  ".join(f"{key} {found.card[key]}" for key in ("bleu", "chrf", "exact") if key in found.card)
            click.echo(f"{name:10}{kind:14}{size / 1e6:5.1f}M parameters   dev: {scores}")
