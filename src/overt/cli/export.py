"""overt export."""

from __future__ import annotations

from pathlib import Path

import click

from overt.cli.paths import NAME, PATH


@click.command()
@click.argument("model", type=NAME)
@click.option("--to", "kind", type=click.Choice(["ctranslate2"]), required=True, help="Who shall load it.")
@click.option("-o", "--output", type=PATH, required=True, help="The folder that is written.")
@click.option("--overwrite", is_flag=True, help="Replace a folder that an earlier export wrote.")
def command(model: str, kind: str, output: Path, overwrite: bool) -> None:
    """Write MODEL, a bundled model or a checkpoint, as a folder that another program loads.

    \b
    overt export en-zh --to ctranslate2 -o en-zh.ctranslate2
    """  # noqa: D301, click reads \b
    from overt.models import ctranslate2, load

    ctranslate2.save(output, load(model).checkpoint, overwrite=overwrite)
