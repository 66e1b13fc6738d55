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
from overt.training import dates, loop, steps, tasks
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
    losses = [event["loss"] for event in events if event["event"] == "step"]
    assert np.mean(losses[-5:]) < np.mean(losses[:5]) - 0.2
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
    with pytest.raises(FileError, match="of a run that has not ended: --resume goes on, --overwrite begins anew"):
        run(Training(task(pairs), RECIPE), output)
    with pytest.raises(FileError, match="with other data or options"):
        run(Training(task(pairs), Recipe(epochs=4)), output, resume=True)
    with pytest.raises(FileError, match="with other data or options"):
        run(Training(task(pairs, piece_dropout=0.0), RECIPE), output, resume=True)
    with pytest.raises(ArgumentError, match="a run on 1 threads"):
        run(Training(task(pairs), RECIPE), output, resume=True, threads=2)
    state.write_bytes(state.read_bytes()[:1000])
    with pytest.raises(FileError, match=r"not a complete safetensors file.*--overwrite begins anew"):
        run(Training(task(pairs), RECIPE), output, resume=True)
    state.unlink()
    with pytest.raises(FileError, match=r"nothing to --resume: .*model.training.safetensors does not exist"):
        run(Training(task(pairs), RECIPE), output, resume=True)


def test_no_damaged_state_goes_on(pairs: Path, tmp_path: Path) -> None:
    output, state = tmp_path / "model.safetensors", tmp_path / "model.training.safetensors"
    Training(task(pairs), RECIPE).save(state)
    data = state.read_bytes()
    # One bit of a parameter, of an average, and of where the run stands.
    for place in (len(data) - 3, len(data) // 2, data.index(b"epoch")):
        state.write_bytes(data[:place] + bytes([data[place] ^ 4]) + data[place + 1 :])
        with pytest.raises(
            FileError, match=r"model.training.safetensors is (damaged|not a).*; --overwrite begins anew"
        ):
            run(Training(task(pairs), RECIPE), output, resume=True)
    state.write_bytes(data)
    arrays, described = loop.checkpoint.read(state, loop.STATE)
    name = next(iter(arrays))
    for changed, other in (
        ({**described, "progress": {"epoch": 1, "colour": 2}}, arrays),
        ({**described, "progress": 3}, arrays),
        ({**described, "progress": {**described["progress"], "step": "7"}}, arrays),
        ({**described, "threads": "many"}, arrays),
        ([], arrays),
        (described, {**arrays, name: arrays[name].reshape(-1)[:1]}),
        (described, {key: array for key, array in arrays.items() if key != name}),
    ):
        loop.checkpoint.write(state, other, loop.STATE, changed)
        with pytest.raises(FileError, match=r"does not describe a run .*; --overwrite begins anew"):
            run(Training(task(pairs), RECIPE), output, resume=True)


def test_nothing_is_overwritten_unasked(pairs: Path, tmp_path: Path) -> None:
    output, log = tmp_path / "model.safetensors", tmp_path / "model.jsonl"
    short = Recipe(epochs=1, batch_tokens=2000)
    run(Training(task(pairs), short), output)
    before = output.read_bytes(), log.read_bytes()
    with pytest.raises(FileError, match=r"model.safetensors exists: --overwrite replaces it, --resume goes on"):
        run(Training(task(pairs), short), output)
    with pytest.raises(FileError, match=r"model.safetensors is finished: there is nothing to --resume"):
        run(Training(task(pairs), short), output, resume=True)
    assert (output.read_bytes(), log.read_bytes()) == before
    for number, options in enumerate(({"overwrite": True}, {"overwrite": True, "resume": True}), 1):
        run(Training(task(pairs), Recipe(epochs=1, batch_tokens=2000, seed=number)), output, **options)
        assert models.load(output).checkpoint.card["recipe"]["seed"] == number
        assert log.read_text().count('"event": "start"') == 1
    output.unlink()
    with pytest.raises(FileError, match=r"model.jsonl exists: --overwrite replaces it"):
        run(Training(task(pairs), short), output)


def test_shares_of_a_batch_add_up_to_it(pairs: Path) -> None:
    one = Training(task(pairs), Recipe(batch_tokens=300, dropout=0.0))
    data = one.batches(0)[0]
    tokens = int((data[2][:, 1:] != PADDING).sum())
    loss, gradients = one.pull(data, 0, tokens)
    parts = [one.pull(steps.every(3, i, data), i, tokens) for i in range(3)]
    assert sum(part[0] for part in parts) == pytest.approx(loss, rel=1e-5)
    for whole, *shares in zip(gradients, *(part[1] for part in parts), strict=True):
        torch.testing.assert_close(sum(shares), whole, rtol=1e-3, atol=1e-5)


def test_a_run_that_diverges_leaves_the_way_free(pairs: Path, tmp_path: Path) -> None:
    output = tmp_path / "model.safetensors"
    with pytest.raises(ArgumentError, match="train with a lower --rate"):
        run(Training(task(pairs), Recipe(epochs=1, batch_tokens=300, rate=1e30, warmup=0.0)), output)
    log = tmp_path / "model.jsonl"
    assert list(tmp_path.iterdir()) == [log]
    last = json.loads(log.read_text().splitlines()[-1])
    assert (last["event"], "lower --rate" in last["why"]) == ("failed", True)
    # Its log is in nobody's way, but any other is.
    assert not loop.check_output(output, resume=False, overwrite=False)
    for other in ("", "{}\n", "mine\n", '{"event": "end"}\n', "[1]\n"):
        log.write_text(other)
        with pytest.raises(FileError, match=r"model\.jsonl exists"):
            loop.check_output(output, resume=False, overwrite=False)


@pytest.mark.parametrize(
    "wrong", [{"dropout": 0.999}, {"dropout": float("nan")}, {"rate": float("inf")}, {"epochs": 0}, {"average": 2}]
)
def test_a_recipe_that_makes_no_sense_is_refused(wrong: dict[str, float]) -> None:
    with pytest.raises(ArgumentError, match=next(iter(wrong))):
        Recipe(**wrong)  # type: ignore[arg-type]  # only floats are wrong here


def scripted(path: Path, scores: list[tuple[float, float]]) -> Training:
    """A run that finds these BLEU scores and dev losses; a BLEU is better by more than chance if it is so by 5."""
    fixed = task(path)
    bleus, losses = zip(*scores, strict=True)
    left, bleu_of = iter(bleus), {str(bleu): bleu for bleu in bleus}

    def score(translator: models.Translator) -> tuple[dict[str, float], list[str]]:
        bleu = next(left)
        return {"bleu": bleu}, [str(bleu)]

    def gain(new: list[str], old: list[str]) -> int:
        more = bleu_of[new[0]] - bleu_of[old[0]]
        return 0 if abs(more) < 5 else 1 if more > 0 else -1

    object.__setattr__(fixed, "score", score)
    object.__setattr__(fixed, "gain", gain)
    found = Training(fixed, Recipe(epochs=len(scores), batch_tokens=2000, score_every=1, patience=2))
    numbers = iter(losses)
    found.dev_loss = lambda: next(numbers)  # type: ignore[method-assign]
    return found


FIRST = "the first that was scored, and none since was better"


@pytest.mark.parametrize(
    ("scores", "epochs", "kept", "why"),
    [
        # What happened: a BLEU of nothing but chance kept the first epoch.
        ([(0.91, 4.87), (0.7, 4.6), (0.6, 4.41)], 3, 3, "a lower dev loss than epoch 2"),
        ([(9.0, 4.0), (20.0, 4.2)], 2, 2, "a significantly better score than epoch 1"),
        (
            [(20.0, 4.0), (9.0, 3.0), (21.0, 4.5), (99.0, 1.0)],
            3,
            1,
            "the first that was scored, and none since was better",
        ),
    ],
)
def test_chance_chooses_no_epoch(
    pairs: Path, tmp_path: Path, scores: list[tuple[float, float]], epochs: int, kept: int, why: str
) -> None:
    output = tmp_path / "model.safetensors"
    events = run(scripted(pairs, scores), output)
    assert sum(event["event"] == "epoch" for event in events) == epochs
    assert {**events[-1]["kept"], "epoch": kept, "why": why} == events[-1]["kept"]
    card = models.load(output).checkpoint.card
    assert (card["epoch"], card["why"], card["bleu"]) == (kept, why, scores[kept - 1][0])


def test_without_dev_pairs_the_last_epoch_is_kept(tmp_path: Path) -> None:
    path, output = tmp_path / "few.tsv", tmp_path / "model.safetensors"
    # The same source is on the same side.
    path.write_text("one two\t12\n" * 40)
    for epochs in (1, 3):
        events = run(Training(task(path), Recipe(epochs=epochs, score_every=1)), output, overwrite=True)
        assert events[-1]["kept"]["epoch"] == models.load(output).checkpoint.card["epoch"] == epochs
        assert events[-1]["kept"]["why"] == "the last: there are no dev pairs to choose by"
    epochs = [event for event in events if event["event"] == "epoch"]
    assert [event["dev_loss"] for event in epochs] == [None] * 3
    # No score is made up of nothing.
    assert not any("bleu" in event for event in epochs)


def test_gains_are_told_from_chance() -> None:
    rng = np.random.default_rng(0)
    wanted = [("", " ".join(rng.choice(WORDS, 8))) for _ in range(60)]
    right = [target for _, target in wanted]
    some = [text if i % 3 else "one" for i, text in enumerate(right)]
    other = [text if (i + 1) % 3 else "two" for i, text in enumerate(right)]
    assert tasks.gain(right, some, wanted) == 1
    assert tasks.gain(some, right, wanted) == -1
    assert tasks.gain(some, other, wanted) == tasks.gain(some, some, wanted) == 0
    # Where no four words in a row are right, BLEU is smoothing, and here it differs much.
    none, few = ["one"] * 60, [" ".join([*text.split()[:2], "eleven", "twelve"]) for text in right]
    assert tasks.bleu(few, wanted)["bleu"] > tasks.bleu(none, wanted)["bleu"] + 1
    assert tasks.gain(few, none, wanted) == tasks.gain(none, few, wanted) == 0
    # Nothing but chance among a few.
    assert tasks.gain(right[:3], ["one", *right[1:3]], wanted[:3]) == 0


@pytest.mark.parametrize(
    ("text", "tokenize"),
    [
        ("Das ist ein Satz.", "13a"),
        ("我爱你，汤姆。", "zh"),
        ("これは猫です。", "ja-mecab"),
        ("漢字仮名交じり文", "ja-mecab"),
        ("ฉันรักคุณ", "char"),
        ("ខ្ញុំស្រឡាញ់អ្នក", "char"),
        ("မင်္ဂလာပါ", "char"),
        ("나는 너를 사랑한다", "13a"),
        ("मैं तुमसे प्यार करता हूँ", "13a"),
        ("2024", "13a"),
        ("", "13a"),
    ],
)
def test_tokens_of_a_score_suit_the_script(text: str, tokenize: str) -> None:
    assert tasks.tokenizer([text]) == tokenize
    said = tasks.signature([("", text)])
    assert f"tok:{tokenize}" in said or "tok:char" in said
    if text not in ("", "2024"):
        assert tasks.bleu([text], [("", text)])["chrf"] == 100


def test_what_is_too_long_is_counted(pairs: Path, tmp_path: Path) -> None:
    path = tmp_path / "long.tsv"
    path.write_text(pairs.read_text() + "two " * 500 + "\t2\n" + "two\t" + "2" * 400 + "\n" + "x" * 30_000 + "\t1\n")
    found = task(path)
    assert found.card["pairs"]["too_long"] == 3
    assert sum(found.card["pairs"].values()) == 403
    assert found.limit == task(pairs).limit
    path.write_text("x" * 30_000 + "\t1\n")
    with pytest.raises(ArgumentError, match="none is left to train on, 1 being too long"):
        task(path)


def test_no_reference_is_longer_than_its_limit(tmp_path: Path) -> None:
    path, output = tmp_path / "spelt.tsv", tmp_path / "model.safetensors"
    # A piece of the source is thirty characters of the target.
    path.write_text("".join(f"{word} {other}\t{word * 10} {other * 10}\n" for word in WORDS for other in WORDS))
    spelt = task(path)
    for source, target in spelt.pairs(0)[0] + spelt.dev:
        assert len(target) < spelt.limit.of(len(source))
    events = run(Training(spelt, Recipe(epochs=1, batch_tokens=2000)), output)
    assert events[0]["limit"] == {"ratio": spelt.limit.ratio, "extra": 20}
    assert models.load(output).checkpoint.limit == spelt.limit
    # What dev was cut at is counted.
    cut = task(path, max_length=2)
    events = run(Training(cut, Recipe(epochs=3, batch_tokens=500, rate=1e-2)), tmp_path / "cut.safetensors")
    assert cut.limit.of(1) == cut.limit.of(99) == 2
    assert events[-1]["kept"]["cut"] == len(cut.dev) > 0


def test_rare_marks_and_joiners_can_be_trained_on(pairs: Path, tmp_path: Path) -> None:
    path = tmp_path / "marks.tsv"
    path.write_text(pairs.read_text() + "one हिं 👩\u200d🚀 a\u200c\t1👨\u200d👩\u200d👧 é̃\n" + "two नी\t2 a\u200cb\n")
    for kind in ("bpe", "characters", "words"):
        cut, guides = task(path, source_tokens=kind, target_tokens=kind).pairs(0)
        assert guides is not None
        assert all(guide.shape == (len(b), len(a)) for guide, (a, b) in zip(guides, cut, strict=True))


def test_every_epoch_is_logged_once(pairs: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    output, log = tmp_path / "model.safetensors", tmp_path / "model.jsonl"
    save = Training.save

    def killed(self: Training, path: Path) -> None:
        # After the second epoch was logged, and before that was saved.
        if self.progress.epoch == 2 and self.progress.batch == 0:
            raise StopIteration
        save(self, path)

    monkeypatch.setattr(Training, "save", killed)
    with pytest.raises(StopIteration):
        run(Training(task(pairs), RECIPE), output)
    assert log.read_text().count('"event": "epoch"') == 2
    monkeypatch.undo()
    run(Training(task(pairs), RECIPE), output, resume=True)
    lines = [json.loads(line) for line in log.read_text().splitlines()]
    assert [line["event"] for line in lines] == ["start", "epoch", "resume", "epoch", "epoch", "end"]
    assert [line["epoch"] for line in lines if line["event"] == "epoch"] == [1, 2, 3]


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
    *_, wide = steps.batch(cut[:3], guides[:3])
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
    dropped = steps.dropping(0.25, drawn)(torch.ones(300, 1001))
    np.testing.assert_allclose(np.unique(dropped.numpy()), [0, 4 / 3], rtol=1e-6)
    assert abs(float((dropped == 0).float().mean()) - 0.25) < 5e-3
    x = torch.ones(3)
    assert steps.dropping(0.0, drawn)(x) is x


def test_the_rate_warms_up_and_falls() -> None:
    rates = [steps.schedule(step, 100, 0.1) for step in range(101)]
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
    sizes = "--width 16 --heads 2 --inner 32 --layers 1 --batch-tokens 200 --epochs 4 --threads 1 --score-every 6"
    return command(str(pairs), "-o", str(output), "--vocabulary-size", "30", *sizes.split())


def started(pairs: Path, output: Path, *more: str) -> subprocess.Popen[str]:
    environment = {**os.environ, "OMP_NUM_THREADS": "1"}
    return subprocess.Popen(
        [*options(pairs, output), *more], env=environment, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True
    )


@pytest.fixture(scope="module")
def whole(pairs: Path, tmp_path_factory: pytest.TempPathFactory) -> Path:
    """What nobody has stopped."""
    output = tmp_path_factory.mktemp("whole") / "model.safetensors"
    _, error = (process := started(pairs, output)).communicate(timeout=300)
    assert process.returncode == 0, error
    return output


@pytest.mark.parametrize(("how", "code"), [(signal.SIGKILL, -9), (signal.SIGINT, 130), (signal.SIGTERM, 143)])
def test_a_killed_or_interrupted_run_loses_nothing(
    pairs: Path, tmp_path: Path, whole: Path, how: signal.Signals, code: int
) -> None:
    output, state = tmp_path / "model.safetensors", tmp_path / "model.training.safetensors"
    process = started(pairs, output)
    log = tmp_path / "model.jsonl"
    deadline = time.monotonic() + 120
    # The second epoch is over and the first is saved, so there is something that could be lost.
    while not (log.exists() and log.read_text().count('"event": "epoch"') > 1) and time.monotonic() < deadline:
        time.sleep(0.05)
    process.send_signal(how)
    _, error = process.communicate(timeout=60)
    assert process.returncode == code, error
    progress = loop.checkpoint.read(state, loop.STATE)[1]["progress"]
    assert not output.exists()
    if how != signal.SIGKILL:
        assert error.splitlines()[-1] == (
            f"overt: stopped with {progress['step']} steps saved; the same command with --resume goes on"
        )
        # Whoever is killed while writing leaves what was half written, under another name.
        assert [path for path in tmp_path.iterdir() if path.name.startswith(".")] == []
        assert json.loads(log.read_text().splitlines()[-1]) == {"event": "stop", "step": progress["step"]}
    _, error = (process := started(pairs, output, "--resume")).communicate(timeout=300)
    assert process.returncode == 0, error
    assert f"goes on after step {progress['step']}" in error
    expected, found = arrays(whole), arrays(output)
    assert all(np.array_equal(expected[name], found[name]) for name in expected)
    epochs = [json.loads(line).get("epoch") for line in log.read_text().splitlines()]
    assert [epoch for epoch in epochs if epoch] == list(range(1, 5))
    assert not state.exists()


@pytest.mark.parametrize("where", ["step", "score"])
def test_ctrl_c_stops_in_a_step_and_while_dev_is_scored(pairs: Path, tmp_path: Path, where: str) -> None:
    output, state = tmp_path / "model.safetensors", tmp_path / "model.training.safetensors"
    one = Training(task(pairs), RECIPE)
    score, count = one.task.score, 0

    def pressed(translator: models.Translator) -> Any:
        signal.raise_signal(signal.SIGINT)
        raise AssertionError("scoring went on")

    def press(event: dict[str, Any]) -> None:
        nonlocal count
        count += event["event"] == "step"
        if event["event"] == "step" and count == 3 and where == "step":
            signal.raise_signal(signal.SIGINT)

    if where == "score":
        object.__setattr__(one.task, "score", pressed)
    before = signal.getsignal(signal.SIGINT)
    with pytest.raises(KeyboardInterrupt):
        one.run(output, report=press)
    assert signal.getsignal(signal.SIGINT) == before
    object.__setattr__(one.task, "score", score)
    assert one.saved == count
    assert not output.exists()
    run(Training(task(pairs), RECIPE), output, resume=True, half=False)
    run(Training(task(pairs), RECIPE), tmp_path / "whole.safetensors", half=False)
    expected, found = arrays(tmp_path / "whole.safetensors"), arrays(output)
    assert all(np.array_equal(expected[name], found[name]) for name in expected)
    assert not state.exists()


def test_ctrl_c_before_the_first_step_says_so(
    pairs: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    def pressed(*_: Any, **__: Any) -> None:
        raise KeyboardInterrupt

    monkeypatch.setattr(tasks, "translation", pressed)
    with pytest.raises(SystemExit) as stopped:
        main(["train", str(pairs), "-o", str(tmp_path / "model.safetensors")])
    assert stopped.value.code == 130
    assert capsys.readouterr().err == "overt: stopped before the first step\n"
    assert list(tmp_path.iterdir()) == []


def test_a_word_of_a_megabyte_ends(pairs: Path, tmp_path: Path) -> None:
    path = tmp_path / "long.tsv"
    path.write_text(pairs.read_text() + "abcdefgh" * 125_000 + "\t1\n")
    _, error = (process := started(path, tmp_path / "model.safetensors", "--epochs", "1")).communicate(timeout=100)
    assert process.returncode == 0, error
    assert "1 left out as too long" in error
    # Who learns a vocabulary by himself is not spared it.
    code = (
        "from overt.models import Vocabulary\n"
        "import random; random.seed(0)\n"
        "word = ''.join(random.choices('abcdefgh', k=300_000))\n"
        "assert Vocabulary.learn([word], 'bpe', size=200).split(word)"
    )
    subprocess.run([sys.executable, "-c", code], check=True, timeout=100)


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
    assert "nothing to --resume" in fails(capsys, "train", str(pairs), "-o", output, "--resume")
    nowhere = str(tmp_path / "no" / "model.safetensors")
    assert "cannot write" in fails(capsys, "train", str(pairs), "-o", nowhere, "--threads", "1")
    assert [path.name for path in tmp_path.iterdir()] == ["bad.tsv"]
