"""overt train."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import click

from overt.errors import ArgumentError

_KINDS = click.Choice(["characters", "words", "bpe"])


@click.command()
@click.argument("corpus", nargs=-1, required=True)
@click.option(
    "-o", "--output", type=click.Path(path_type=Path), required=True, help="Where the model goes: NAME.safetensors."
)
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
@click.option("--resume", is_flag=True, help="Go on where a run with the same options was stopped.")
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
    resume: bool,
    seed: int,
    **options: Any,
) -> None:
    """Train a model on CORPUS: tab-separated pairs, or two files line by line, plain or gzip; or on "dates".

    The split into train, dev and test is by the hash of the source: of 40 parts, 1 is test and 1 is dev.

    \b
    overt train pairs.tsv.gz -o en-zh.safetensors
    overt train dates -o dates.safetensors
    """  # noqa: D301, click reads \b
    from overt.training import tasks
    from overt.training.loop import Training
    from overt.training.recipe import Recipe

    if len(corpus) > 2:
        raise ArgumentError(f"give one file of tab-separated pairs or two files, not {len(corpus)}")
    if output.suffix != ".safetensors":
        raise ArgumentError(f"the output {output} must end in .safetensors")
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
            seed=seed,
            **sizes,
        )
    _watch(Training(task, Recipe(seed=seed, **given)), output, resume, threads)


def _watch(training: Any, output: Path, resume: bool, threads: int | None) -> None:
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
            elif line["event"] == "epoch":
                numbers = {key: value for key, value in line.items() if key not in ("event", "step", "seconds")}
                console.print("  ".join(f"{key} {value}" for key, value in numbers.items()), highlight=False)

        training.run(output, resume=resume, threads=threads, report=report)
    except KeyboardInterrupt:
        console.print("overt: stopped; the same command with --resume goes on", highlight=False)
        raise
    finally:
        if progress.live.is_started:
            progress.stop()
