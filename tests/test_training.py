"""Training: what it learns, how it stops and goes on, and what it refuses."""

from __future__ import annotations

import json
import os
import random
import signal
import subprocess
import sys
import time
from itertools import pairwise
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch

from overt import models
from overt.cli import main
from overt.errors import ArgumentError, FileError
from overt.models.vocabulary import PADDING
from overt.training import dates, loop, tasks
from overt.training.loop import Training
from overt.training.recipe import Recipe

WORDS = ["one", "two", "three", "four", "five", "six", "seven", "eight", "nine", "zero"]
SIZES = {"width": 16, "heads": 2, "inner": 32, "encoder_layers": 1, "decoder_layers": 1}


@pytest.fixture(scope="module")
def pairs(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Numbers in words to digits."""
    random.seed(0)
    path = tmp_path_factory.mktemp("corpus") / "pairs.tsv"
    with path.open("w") as file:
        for _ in range(400):
            digits = [random.randrange(10) for _ in range(random.randrange(1, 5))]
            file.write(" ".join(WORDS[i - 1] for i in digits) + "\t" + "".join(map(str, digits)) + "\n")
    return path


def task(path: Path, **options: Any) -> tasks.Task:
    return tasks.translation([path], vocabulary_size=30, **{**SIZES, **options})


RECIPE = Recipe(epochs=3, batch_tokens=100, rate=5e-3, score_every=2)


def run(training_: Training, output: Path, **options: Any) -> list[dict[str, Any]]:
    events: list[dict[str, Any]] = []
    training_.run(output, report=events.append, **options)
    return events


def arrays(path: Path) -> dict[str, np.ndarray]:
    return dict(models.load(path).checkpoint.parameters)


def test_a_run_ends_with_a_model_a_log_and_nothing_else(pairs: Path, tmp_path: Path) -> None:
    output = tmp_path / "model.safetensors"
    events = run(Training(task(pairs), RECIPE), output, threads=1)
    steps = [event for event in events if event["event"] == "step"]
    assert steps[-1]["loss"] < steps[0]["loss"] - 0.5
    assert sorted(path.name for path in tmp_path.iterdir()) == ["model.jsonl", "model.safetensors"]
    log = [json.loads(line) for line in (tmp_path / "model.jsonl").read_text().splitlines()]
    assert [line["event"] for line in log] == ["start", "epoch", "epoch", "epoch", "end"]
    # Scores come every second epoch, and at the end.
    assert ["bleu" in line for line in log[1:4]] == [False, True, True]
    card = models.load(output).checkpoint.card
    assert card["task"] == "translation"
    assert card["recipe"]["epochs"] == 3
    assert sum(card["pairs"].values()) == 400


def test_the_same_seed_gives_the_same_model(pairs: Path, tmp_path: Path) -> None:
    found = []
    for name, seed in (("a", 0), ("b", 0), ("c", 1)):
        run(Training(task(pairs), Recipe(epochs=1, batch_tokens=300, seed=seed)), tmp_path / f"{name}.safetensors")
        found.append(arrays(tmp_path / f"{name}.safetensors"))
    assert all(np.array_equal(found[0][name], found[1][name]) for name in found[0])
    assert not all(np.array_equal(found[0][name], found[2][name]) for name in found[0])


def test_a_run_goes_on_exactly_where_it_was_saved(pairs: Path, tmp_path: Path) -> None:
    whole, part = tmp_path / "whole.safetensors", tmp_path / "part.safetensors"
    state = tmp_path / "part.training.safetensors"
    run(Training(task(pairs), RECIPE), whole, half=False)
    first = Training(task(pairs), RECIPE)
    count = 0

    def stop(event: dict[str, Any]) -> None:
        nonlocal count
        count += event["event"] == "step"
        if count == 30:
            first.save(state)
        # Steps that nobody saved are lost and made again.
        if count == 33:
            raise StopIteration

    with pytest.raises(StopIteration):
        first.run(part, half=False, report=stop)
    assert loop.checkpoint.read(state, loop.STATE)[1]["progress"]["batch"] > 0
    # Whatever torch drew meanwhile.
    torch.rand(7)
    events = run(Training(task(pairs), RECIPE), part, resume=True, half=False)
    assert events[0] == {**events[0], "event": "resume", "step": 30}
    expected, found = arrays(whole), arrays(part)
    assert all(np.array_equal(expected[name], found[name]) for name in expected)


def test_only_the_same_run_goes_on(pairs: Path, tmp_path: Path) -> None:
    output, state = tmp_path / "model.safetensors", tmp_path / "model.training.safetensors"
    Training(task(pairs), RECIPE).save(state)
    with pytest.raises(FileError, match="add --resume to go on, or delete it"):
        run(Training(task(pairs), RECIPE), output)
    with pytest.raises(FileError, match="with other data or options"):
        run(Training(task(pairs), Recipe(epochs=4)), output, resume=True)
    with pytest.raises(FileError, match="with other data or options"):
        run(Training(task(pairs, piece_dropout=0.0), RECIPE), output, resume=True)
    with pytest.raises(ArgumentError, match="a run on 1 threads"):
        run(Training(task(pairs), RECIPE), output, resume=True, threads=2)
    state.write_bytes(state.read_bytes()[:1000])
    with pytest.raises(FileError, match="not a complete safetensors file"):
        run(Training(task(pairs), RECIPE), output, resume=True)
    state.unlink()
    with pytest.raises(FileError, match="cannot read"):
        run(Training(task(pairs), RECIPE), output, resume=True)


def test_shares_of_a_batch_add_up_to_it(pairs: Path) -> None:
    one = Training(task(pairs), Recipe(batch_tokens=300, dropout=0.0))
    data = one.batches(0)[0]
    tokens = int((data[2][:, 1:] != PADDING).sum())
    loss, gradients = one.pull(data, 0, tokens)
    parts = [one.pull(loop.every(3, i, data), i, tokens) for i in range(3)]
    assert sum(part[0] for part in parts) == pytest.approx(loss, rel=1e-5)
    for whole, *shares in zip(gradients, *(part[1] for part in parts), strict=True):
        torch.testing.assert_close(sum(shares), whole, rtol=1e-3, atol=1e-5)


def test_a_run_that_diverges_leaves_the_way_free(pairs: Path, tmp_path: Path) -> None:
    output = tmp_path / "model.safetensors"
    with pytest.raises(ArgumentError, match="train with a lower --rate"):
        run(Training(task(pairs), Recipe(epochs=1, batch_tokens=300, rate=1e30, warmup=0.0)), output)
    assert [path.name for path in tmp_path.iterdir()] == ["model.jsonl"]


@pytest.mark.parametrize(
    "wrong", [{"dropout": 0.999}, {"dropout": float("nan")}, {"rate": float("inf")}, {"epochs": 0}, {"average": 2}]
)
def test_a_recipe_that_makes_no_sense_is_refused(wrong: dict[str, float]) -> None:
    with pytest.raises(ArgumentError, match=next(iter(wrong))):
        Recipe(**wrong)  # type: ignore[arg-type]  # only floats are wrong here


def test_a_run_stops_when_nothing_gets_better(pairs: Path, tmp_path: Path) -> None:
    never_better = task(pairs)
    scores = iter([3.0, 2.0, 1.0, 9.0])
    object.__setattr__(never_better, "score", lambda translator: {"bleu": next(scores)})
    recipe = Recipe(epochs=4, batch_tokens=2000, score_every=1, patience=2)
    events = run(Training(never_better, recipe), tmp_path / "model.safetensors")
    assert [event["bleu"] for event in events if event["event"] == "epoch"] == [3.0, 2.0, 1.0]
    assert models.load(tmp_path / "model.safetensors").checkpoint.card["epoch"] == 1


def test_batches_hold_every_pair_once_and_few_tokens(pairs: Path) -> None:
    run_ = Training(task(pairs), RECIPE)
    batches = run_.batches(1)
    targets = sorted(tuple(row[row != 0].tolist()) for _, _, target, _ in batches for row in target)
    assert targets == sorted((1, *target, 2) for _, target in run_.task.pairs(1)[0])
    assert all(max(source.numel(), target[:, 1:].numel()) <= 100 for source, _, target, _ in batches)
    again, other = run_.batches(1), run_.batches(2)
    assert all(torch.equal(a[2], b[2]) for a, b in zip(batches, again, strict=True))
    assert any(a[2].shape != b[2].shape or not torch.equal(a[2], b[2]) for a, b in zip(batches, other, strict=False))


def test_guides_say_where_the_translation_stands(pairs: Path) -> None:
    found = task(pairs)
    cut, guides = found.pairs(0)
    assert guides is not None
    right = total = 0
    for (source, target), guide in zip(cut, guides, strict=True):
        assert guide.shape == (len(target), len(source))
        assert np.all(guide >= 0)
        assert np.all(guide.sum(axis=1) < 1 + 1e-6)
        place = np.array(found.source.words([found.source.tokens[number] for number in source]))
        right += sum(place[row.argmax()] == t for t, row in enumerate(guide))
        total += len(target)
    assert right / total > 0.9
    *_, wide = loop.batch(cut[:3], guides[:3])
    assert wide is not None
    torch.testing.assert_close(wide.sum(dim=-1)[0, : len(cut[0][1]) + 1], torch.ones(len(cut[0][1]) + 1))


def test_a_guided_head_looks_where_it_should(pairs: Path) -> None:
    def agreement(guidance: float) -> float:
        recipe = Recipe(epochs=8, batch_tokens=200, rate=5e-3, guidance=guidance)
        run_ = Training(task(pairs, piece_dropout=0.0), recipe)
        for epoch in range(8):
            for data in run_.batches(epoch):
                run_.learn(data, 150)
        found = models.Translator.of(run_.averaged({}))
        (cut, guides), same = run_.task.pairs(0), []
        for (source, target), guide in list(zip(cut, guides or [], strict=True))[:40]:
            text = run_.task.source.join(run_.task.source.tokens[number] for number in source)
            one = found.align(text, run_.task.target.join(run_.task.target.tokens[number] for number in target))
            same += (one.alignment.argmax(axis=1) == guide.argmax(axis=1)).tolist()
        return float(np.mean(same))

    assert agreement(1.0) > max(0.6, agreement(0.0) + 0.2)


def test_dropout_drops_its_share_and_keeps_the_mean() -> None:
    drawn = torch.Generator().manual_seed(0)
    dropped = loop.dropping(0.25, drawn)(torch.ones(300, 1001))
    np.testing.assert_allclose(np.unique(dropped.numpy()), [0, 4 / 3], rtol=1e-6)
    assert abs(float((dropped == 0).float().mean()) - 0.25) < 5e-3
    x = torch.ones(3)
    assert loop.dropping(0.0, drawn)(x) is x


def test_the_rate_warms_up_and_falls() -> None:
    rates = [loop.schedule(step, 100, 0.1) for step in range(101)]
    assert rates[0] == 0.1
    assert max(rates) == rates[9] == rates[10] == 1
    assert rates[100] == 0
    assert all(a > b for a, b in pairwise(rates[10:]))


def test_every_date_can_be_read_in_one_way() -> None:
    rng = np.random.default_rng(0)
    drawn = [dates.written(rng) for _ in range(30_000)]
    read: dict[str, str] = {}
    for one in drawn:
        assert read.setdefault(one.text, one.iso) == one.iso, one
        assert set(one.spans) == set(dates.ISO_SPANS)
        assert one.text[slice(*one.spans["year"])] == one.iso[:4]
        assert int(one.text[slice(*one.spans["day"])]) == int(one.iso[8:])
    assert len(dates.LOCALES) >= 16


def command(*arguments: str) -> list[str]:
    return [sys.executable, "-m", "overt", "train", *arguments]


def options(pairs: Path, output: Path) -> list[str]:
    sizes = "--width 16 --heads 2 --inner 32 --layers 1 --batch-tokens 200 --epochs 60 --threads 1 --score-every 60"
    return command(str(pairs), "-o", str(output), "--vocabulary-size", "30", *sizes.split())


@pytest.mark.parametrize("how", [signal.SIGKILL, signal.SIGINT])
def test_a_killed_or_interrupted_run_loses_nothing(pairs: Path, tmp_path: Path, how: signal.Signals) -> None:
    output, state = tmp_path / "model.safetensors", tmp_path / "model.training.safetensors"
    environment = {**os.environ, "OMP_NUM_THREADS": "1"}
    process = subprocess.Popen(
        options(pairs, output), env=environment, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True
    )
    log = tmp_path / "model.jsonl"
    deadline = time.monotonic() + 60
    # The second epoch is over and the first is saved, so there is something that could be lost.
    while not (log.exists() and log.read_text().count('"event": "epoch"') > 1) and time.monotonic() < deadline:
        time.sleep(0.05)
    process.send_signal(how)
    _, error = process.communicate(timeout=60)
    assert process.returncode == (-9 if how == signal.SIGKILL else 130), error
    if how == signal.SIGINT:
        assert "with --resume goes on" in error
        # Whoever is killed while writing leaves what was half written, under another name.
        assert [path for path in tmp_path.iterdir() if path.name.startswith(".")] == []
    assert not output.exists()
    assert loop.checkpoint.read(state, loop.STATE)[1]["progress"]["step"] > 0


def fails(capsys: pytest.CaptureFixture[str], *arguments: str) -> str:
    with pytest.raises(SystemExit) as stopped:
        main(list(arguments))
    assert stopped.value.code == 2
    out, error = capsys.readouterr()
    assert out == ""
    assert error.count("\n") == 1
    return error


def test_bad_input_is_one_line(pairs: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    output = str(tmp_path / "model.safetensors")
    bad = tmp_path / "bad.tsv"
    bad.write_bytes(b"a\tb\nc\xff\td\n")
    assert "bad.tsv, line 2: not UTF-8" in fails(capsys, "train", str(bad), "-o", output)
    assert "cannot read" in fails(capsys, "train", "missing.tsv", "-o", output)
    assert "not 3" in fails(capsys, "train", "a", "b", "c", "-o", output)
    assert "must end in .safetensors" in fails(capsys, "train", str(pairs), "-o", str(tmp_path / "model.pt"))
    assert "a Transformer has no state" in fails(capsys, "train", str(pairs), "-o", output, "--state", "9")
    assert "an RNN has no heads" in fails(capsys, "train", "dates", "-o", output, "--heads", "2")
    nowhere = str(tmp_path / "no" / "model.safetensors")
    assert "cannot write" in fails(capsys, "train", str(pairs), "-o", nowhere, "--threads", "1")
    assert [path.name for path in tmp_path.iterdir()] == ["bad.tsv"]
