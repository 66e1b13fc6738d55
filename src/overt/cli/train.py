"""overt train."""

from __future__ import annotations

import os
from pathlib import Path
from typing import Any

import click

from overt.cli.paths import NAME, PATH
from overt.errors import ArgumentError

_KINDS = click.Choice(["characters", "words", "bpe"])


@click.command()
@click.argument("corpus", nargs=-1, required=True, type=NAME)
@click.option("-o", "--output", type=PATH, required=True, help="Where the model goes: NAME.safetensors.")
@click.option("--architecture", type=click.Choice(["transformer", "rnn"]), default="transformer", show_default=True)
@click.option("--source-tokens", type=_KINDS, default="bpe", show_default=True)
@click.option("--target-tokens", type=_KINDS, default="characters", show_default=True)
@click.option("--vocabulary-size", default=4000, show_default=True, type=click.IntRange(1), help="Merges of BPE.")
@click.option("--piece-dropout", default=0.1, show_default=True, type=click.FloatRange(0, 1), help="Merges left out.")
@click.option("--width", type=click.IntRange(1), help="Of embeddings.")
@click.option("--inner", type=click.IntRange(1), help="Of the feed-forward part, or of the additive score.")
@click.option("--heads", type=click.IntRange(1), help="Transformer: heads of each attention.")
@click.option("--layers", type=click.IntRange(1), help="Transformer: layers of encoder and decoder.")
@click.option("--state", type=click.IntRange(1), help="RNN: width of its states.")
@click.option("--no-attention", is_flag=True, help="RNN: give every step the mean of the source, for comparison.")
@click.option("--epochs", default=None, type=click.IntRange(1), help="28; 6 for dates.")
@click.option("--batch-tokens", default=None, type=click.IntRange(1), help="On either side: 900; 2000 for dates.")
@click.option(
    "--rate", default=None, type=click.FloatRange(0, min_open=True), help="At its peak: 0.0012; 0.005 for dates."
)
@click.option("--warmup", default=None, type=click.FloatRange(0, 1), help="Share of all steps: 0.05; 0.1 for dates.")
@click.option("--dropout", default=None, type=click.FloatRange(0, 0.99), help="0.2; 0 for dates.")
@click.option("--smoothing", default=None, type=click.FloatRange(0, 1), help="Of labels: 0.1; 0 for dates.")
@click.option("--guidance", default=None, type=click.FloatRange(0), help="Of one head by a word alignment: 0.5.")
@click.option(
    "--clip", default=1.0, show_default=True, type=click.FloatRange(0, min_open=True), help="Largest gradient."
)
@click.option("--average", default=None, type=click.FloatRange(0, 1, max_open=True), help="Decay of averages: 0.998.")
@click.option("--score-every", default=None, type=click.IntRange(1), help="Epochs between BLEU and chrF on dev: 5.")
@click.option(
    "--patience",
    default=0,
    show_default=True,
    type=click.IntRange(0),
    help="Stop after so many scores without a better one.",
)
@click.option("--seed", default=0, show_default=True, type=click.IntRange(0))
@click.option("--threads", type=click.IntRange(1), help="By default one per core; a run goes on with as many.")
@click.option(
    "--max-length", type=click.IntRange(1, 1000), help="The most tokens of a translation; learnt if not said."
)
@click.option("--resume", is_flag=True, help="Go on where a run with the same options was stopped.")
@click.option("--overwrite", is_flag=True, help="Replace a model that is there already, and its log.")
def command(
    corpus: tuple[str, ...],
    output: Path,
    architecture: str,
    source_tokens: str,
    target_tokens: str,
    vocabulary_size: int,
    piece_dropout: float,
    no_attention: bool,
    threads: int | None,
    max_length: int | None,
    resume: bool,
    overwrite: bool,
    seed: int,
    **options: Any,
) -> None:
    """Train a model on CORPUS: tab-separated pairs, or two files line by line, plain or gzip; or on "dates".

    The split into train, dev and test is by the hash of the source: of 40 parts, 1 is test and 1 is dev.
    Ctrl-C saves and stops; the same command with --resume goes on.  Under torchrun, processes train together, and a run
    goes on with any number of them, to the same bits.

    \b
    overt train pairs.tsv.gz -o en-zh.safetensors
    overt train dates -o dates.safetensors
    torchrun --nproc-per-node 4 -m overt train pairs.tsv.gz -o en-zh.safetensors
    """  # noqa: D301, click reads \b
    from overt.training import tasks
    from overt.training.loop import Training, check_output
    from overt.training.recipe import Recipe
    from overt.training.team import assembled

    if len(corpus) > 2:
        raise ArgumentError(f"give one file of tab-separated pairs or two files, not {len(corpus)}")
    if output.suffix != ".safetensors":
        raise ArgumentError(f"the output {output} must end in .safetensors")
    if int(os.environ.get("RANK", "0")) == 0:
        # Before hours are spent on it.
        check_output(output, resume=resume, overwrite=overwrite)
    given = {name: value for name, value in options.items() if value is not None}
    sizes: dict[str, Any] = {
        name: given.pop(name) for name in list(given) if name in ("width", "inner", "heads", "state")
    }
    if "layers" in given:
        sizes["encoder_layers"] = sizes["decoder_layers"] = given.pop("layers")
    if no_attention:
        sizes["attentive"] = False
    reading = corpus == ("dates",)
    recurrent = reading or architecture == "rnn"
    for name in ("heads", "encoder_layers") if recurrent else ("state", "attentive"):
        if name in sizes:
            raise ArgumentError(f"{'an RNN' if recurrent else 'a Transformer'} has no {name.replace('encoder_', '')}")
    training = None
    try:
        if reading:
            task = tasks.dates(seed=seed, **sizes)
            given = tasks.DATES | given
        else:
            task = tasks.translation(
                [Path(name) for name in corpus],
                architecture="rnn" if recurrent else "transformer",
                source_tokens=source_tokens,  # type: ignore[arg-type]  # click has checked it
                target_tokens=target_tokens,  # type: ignore[arg-type]
                vocabulary_size=vocabulary_size,
                piece_dropout=piece_dropout,
                max_length=max_length,
                seed=seed,
                **sizes,
            )
        with assembled() as team:
            training = Training(task, Recipe(seed=seed, **given), team)
            _watch(training, output, resume, overwrite, threads)
    except (KeyboardInterrupt, SystemExit):
        text = "before the first step"
        if training is not None and not training.team.leads:
            raise
        if training is not None and training.saved is not None:
            text = f"with {training.saved} steps saved; the same command with --resume goes on"
        click.echo(f"overt: stopped {text}", err=True)
        raise


def _watch(training: Any, output: Path, resume: bool, overwrite: bool, threads: int | None) -> None:
    """Run it, with a bar, and a line for every epoch."""
    from rich.console import Console
    from rich.progress import BarColumn, Progress, TextColumn, TimeRemainingColumn

    columns = (
        BarColumn(),
        TextColumn("step {task.completed}/{task.total}, loss {task.fields[loss]:.3f},"),
        TextColumn("{task.fields[speed]:.0f} tokens/s,"),
        TimeRemainingColumn(elapsed_when_finished=True),
    )
    console = Console(stderr=True)
    # The bar appears with the first step, so that what is wrong from the start is one line.
    progress = Progress(*columns, console=console)
    try:
        bar = progress.add_task("", total=None, loss=float("nan"), speed=0.0)
        speed = 0.0

        def report(line: dict[str, Any]) -> None:
            nonlocal speed
            if line["event"] == "step":
                speed += 0.05 * (line["speed"] - speed) if speed else line["speed"]
                progress.start()
                progress.update(
                    bar, total=max(line["steps"], line["step"]), completed=line["step"], loss=line["loss"], speed=speed
                )
            elif text := _said(line, output, training.recipe.epochs):
                console.print(text, highlight=False, markup=False, soft_wrap=True)

        training.run(output, resume=resume, overwrite=overwrite, threads=threads, report=report)
    finally:
        if progress.live.is_started:
            progress.stop()


def _said(line: dict[str, Any], output: Path, epochs: int) -> str:
    """What a stranger reads of an event."""
    match line:
        case {"event": "start", "pairs": pairs, "limit": limit}:
            long = f"; {pairs['too_long']:,} left out as too long" if pairs["too_long"] else ""
            each = f" and {limit['ratio']:g} for each token of its source" if limit["ratio"] else ""
            scored = f"dev is scored by BLEU {line['bleu_signature']}"
            return (
                f"{pairs['train']:,} pairs to train on, {pairs['dev']:,} for dev, {pairs['test']:,} for a test{long}\n"
                f"a translation may have {limit['extra']} tokens{each}\n"
                f"{scored if pairs['dev'] else 'without dev pairs the last epoch is kept'}"
            )
        case {"event": "resume", "step": step}:
            return f"goes on after step {step:,}"
        case {"event": "epoch"}:
            return "  ".join(_numbers(line, "event", "step", "seconds"))
        case {"event": "end", "kept": kept}:
            numbers = ", ".join(_numbers(kept, "epoch", "why", "loss", "tokens_per_second", "seconds"))
            scores = f" ({numbers})" if numbers else ""
            return f"kept epoch {kept['epoch']} of {epochs} in {output}: {kept['why']}{scores}"
    return ""


def _numbers(line: dict[str, Any], *without: str) -> list[str]:
    """What there is of dev scores, and no translation that was cut is not worth a word."""
    hidden = {*without, *(name for name, value in line.items() if value is None or (name == "cut" and not value))}
    return [f"{name} {value}" for name, value in line.items() if name not in hidden]
