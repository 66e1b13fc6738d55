"""overt export: CTranslate2 loads what is written, and says the same."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path
from typing import Any

import ctranslate2
import numpy as np
import pytest

from overt import models
from overt.cli import main
from overt.errors import FileError
from overt.models import Checkpoint, Transformer, Translator, Vocabulary
from overt.models import ctranslate2 as export
from overt.models.initial import initial

SENTENCES = """
The tea is still hot.
My brother lives near the sea.
Do you have any questions?
We waited for the bus for an hour.
She forgot her umbrella again.
I can't find my keys.
The children are playing in the garden.
What time does the shop close?
He bought three apples and a pear.
It will rain tomorrow.
Please close the window.
This book is too difficult for me.
They went to Beijing by train.
Nobody answered the phone.
I would like a glass of water.
Her father is a doctor.
The dog barked all night.
How much does this cost?
Let's eat before we leave.
He doesn't speak Chinese very well.
Why are you laughing?
I have never seen snow.
The meeting was put off until Friday.
You look tired today.
Can I borrow your pen?
There is a cat under the table.
We are learning to swim.
Mary wrote him a long letter.
The soup needs more salt.
I don't remember his name.
Turn left at the next corner.
Who broke this cup?
Their house is bigger than ours.
It took me two days to read it.
He is afraid of spiders.
Would you like to dance?
The zyxophone played a quaint melody.
My watch is five minutes slow.
Everybody knows that.
Good night!
""".strip().splitlines()


@pytest.fixture(scope="module")
def translator() -> Translator:
    return models.load("en-zh")


@pytest.fixture(scope="module")
def folder(translator: Translator, tmp_path_factory: pytest.TempPathFactory) -> Path:
    path = tmp_path_factory.mktemp("exported") / "en-zh"
    export.save(path, translator.checkpoint)
    return path


def loaded(path: Path) -> Any:
    return ctranslate2.Translator(str(path), device="cpu", compute_type="float32", intra_threads=1)


@pytest.mark.parametrize("beam", [1, 5])
def test_both_say_the_same(translator: Translator, folder: Path, beam: int) -> None:
    # The two divide by other powers of other lengths, so divide by none.
    ours = translator.translate(SENTENCES, beam=beam, penalty=0.0, replace_unknown=False)
    theirs = loaded(folder).translate_batch(
        [translator.split(text) for text in SENTENCES], beam_size=beam, length_penalty=0, return_scores=True
    )
    assert [one[0].target_tokens for one in ours] == [tuple(one.hypotheses[0]) for one in theirs]
    np.testing.assert_allclose([one[0].score for one in ours], [one.scores[0] for one in theirs], atol=1e-3)


def test_any_sizes_go(tmp_path: Path) -> None:
    texts = ["the cat sat on the mat.", "a dog, perhaps", "猫坐在垫子上。"]
    source, target = (Vocabulary.learn(texts, kind, size=30, least=1) for kind in ("bpe", "words"))
    model = Transformer(
        len(source), len(target), width=32, heads=4, inner=24, encoder_layers=1, decoder_layers=3, alignment_layer=1
    )
    untrained = Translator.of(
        Checkpoint(model, source, target, initial(model.shapes(), np.random.default_rng(0)), {"note": "untrained"})
    )
    export.save(tmp_path / "model", untrained.checkpoint)
    pairs = [(a, b) for a in texts for b in texts]
    theirs = loaded(tmp_path / "model").score_batch(
        [untrained.split(a) for a, _ in pairs], [target.split(b) for _, b in pairs]
    )
    ours = [untrained.align(a, b).score for a, b in pairs]
    np.testing.assert_allclose([sum(one.log_probs) for one in theirs], ours, atol=1e-3)


def command(capsys: pytest.CaptureFixture[str], *arguments: str) -> tuple[int, str]:
    with pytest.raises(SystemExit) as stopped:
        main(["export", *arguments])
    out, error = capsys.readouterr()
    assert out == ""
    return int(str(stopped.value.code)), error


def test_the_command_writes_and_overwrites_when_asked(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    path = tmp_path / "model"
    arguments = ("en-zh", "--to", "ctranslate2", "-o", str(path))
    assert command(capsys, *arguments) == (0, "")
    first = {file.name: file.stat().st_ino for file in path.iterdir()}
    code, error = command(capsys, *arguments)
    assert (code, error) == (
        2,
        f"overt: {path} exists already: choose another name, or say --overwrite (overwrite=True)\n",
    )
    # By a link it is the same folder, and the link stays.
    (tmp_path / "link").symlink_to(path)
    assert command(capsys, *arguments[:-1], str(tmp_path / "link"), "--overwrite") == (0, "")
    assert (tmp_path / "link").is_symlink()
    second = {file.name: file.stat().st_ino for file in path.iterdir()}
    assert first.keys() == second.keys()
    assert first != second
    assert loaded(path).translate_batch([["▁i", "▁see", "."]])[0].hypotheses[0]
    assert sorted(file.name for file in tmp_path.iterdir()) == ["link", "model"]


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (["dates", "--to", "ctranslate2", "-o", "{}/new"], "Transformers only: this model is an attention RNN"),
        (["nowhere", "--to", "ctranslate2", "-o", "{}/new"], "nowhere is no checkpoint, and no bundled model"),
        (["en-zh", "--to", "ctranslate2", "-o", "{}/no/new"], "cannot write"),
        (["en-zh", "--to", "ctranslate2", "-o", "{}/mine", "--overwrite"], "holds diary.txt, which no export wrote"),
        (["en-zh", "--to", "ctranslate2", "-o", "{}/mine/diary.txt", "--overwrite"], "cannot write"),
        (["en-zh", "--to", "paper", "-o", "{}/new"], "'paper' is not 'ctranslate2'"),
        (["en-zh", "--to", "ctranslate2"], "Missing option '-o'"),
    ],
)
def test_bad_input_is_one_line_and_changes_nothing(
    tmp_path: Path, capsys: pytest.CaptureFixture[str], arguments: list[str], message: str
) -> None:
    (tmp_path / "mine").mkdir()
    (tmp_path / "mine" / "diary.txt").write_text("dear diary")
    code, error = command(capsys, *(part.replace("{}", str(tmp_path)) for part in arguments))
    assert code == 2
    assert message in error
    assert error.startswith("overt: ")
    assert error.count("\n") == 1
    assert [file.name for file in tmp_path.rglob("*")] == ["mine", "diary.txt"]
    assert (tmp_path / "mine" / "diary.txt").read_text() == "dear diary"


def test_only_an_export_is_replaced(translator: Translator, tmp_path: Path) -> None:
    (tmp_path / "config.json").write_text("mine")
    with pytest.raises(FileError, match="only a part of an export"):
        export.save(tmp_path, translator.checkpoint, overwrite=True)
    assert (tmp_path / "config.json").read_text() == "mine"


@pytest.mark.parametrize("failing", [1, 2])
def test_what_fails_on_the_way_leaves_the_old_folder(
    translator: Translator, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, failing: int
) -> None:
    path = tmp_path / "model"
    export.save(path, translator.checkpoint)
    before = {file.name: file.stat().st_ino for file in path.iterdir()}
    rename, calls = os.rename, 0

    def fails(*arguments: Any, **options: Any) -> None:
        nonlocal calls
        calls += 1
        if calls == failing:
            raise OSError(28, "No space left on device")
        rename(*arguments, **options)

    monkeypatch.setattr(os, "rename", fails)
    with pytest.raises(FileError, match="No space left on device"):
        export.save(path, translator.checkpoint, overwrite=True)
    assert {file.name: file.stat().st_ino for file in path.iterdir()} == before
    assert [file.name for file in tmp_path.iterdir()] == ["model"]


def test_without_ctranslate2_it_says_what_is_missing(tmp_path: Path) -> None:
    code = "import sys; sys.modules['ctranslate2'] = None; from overt.cli import main; main(sys.argv[1:])"
    arguments = ["export", "en-zh", "--to", "ctranslate2", "-o", str(tmp_path / "model")]
    found = subprocess.run([sys.executable, "-c", code, *arguments], capture_output=True, text=True, timeout=60)
    assert (found.returncode, found.stdout) == (2, "")
    assert found.stderr == "overt: exporting to CTranslate2 needs ctranslate2: pip install 'overt[ctranslate2]'\n"
    assert not list(tmp_path.iterdir())
