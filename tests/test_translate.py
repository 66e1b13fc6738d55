"""overt translate and overt models, with the models inside the package."""

from __future__ import annotations

import io
import json
import pickle
import resource
import subprocess
import sys
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from overt import layers, models
from overt.cli import main
from overt.models.vocabulary import END, START
from overt.training import dates
from overt.views.alignment import table
from overt.views.paper import Paper


class Console:
    """What the command prints, from what it is told."""

    def __init__(self, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]) -> None:
        self.monkeypatch, self.capsys = monkeypatch, capsys

    def __call__(self, *arguments: str, stdin: bytes = b"", code: int = 0) -> tuple[str, str]:
        self.monkeypatch.setattr(sys, "stdin", io.TextIOWrapper(io.BytesIO(stdin)))
        with pytest.raises(SystemExit) as stopped:
            main(list(arguments))
        out, error = self.capsys.readouterr()
        assert stopped.value.code == code, error
        return out, error


@pytest.fixture
def overt(monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]) -> Console:
    return Console(monkeypatch, capsys)


@pytest.fixture(scope="module")
def translator() -> models.Translator:
    return models.load("en-zh")


def test_the_package_holds_two_models(overt: Console) -> None:
    assert models.bundled() == ["dates", "en-zh"]
    assert sum(path.stat().st_size for path in models.translator.BUNDLED.iterdir()) < 20e6
    lines = [json.loads(line) for line in overt("models", "--json")[0].splitlines()]
    assert [line["name"] for line in lines] == ["dates", "en-zh"]
    assert all(f"{line['name']} " in overt("models")[0] for line in lines)


FRESH = """
import sys
from importlib.abc import MetaPathFinder

class Nobody(MetaPathFinder):
    def find_spec(self, name, path=None, target=None):
        if name.partition(".")[0] in ("torch", "sacrebleu", "babel", "ml_dtypes"):
            raise ImportError(name)

sys.meta_path.insert(0, Nobody())
from overt.cli import main
main(sys.argv[1:])
"""


def test_i_love_you_without_torch_in_a_second_and_a_half() -> None:
    best = np.inf
    for _ in range(3):
        # Processor time, which a busy machine does not stretch.
        start = resource.getrusage(resource.RUSAGE_CHILDREN)
        found = subprocess.run(
            [sys.executable, "-c", FRESH, "translate", "I love you."], capture_output=True, text=True, timeout=60
        )
        end = resource.getrusage(resource.RUSAGE_CHILDREN)
        best = min(best, end.ru_utime + end.ru_stime - start.ru_utime - start.ru_stime)
        assert (found.stdout, found.stderr) == ("我爱你。\n", "")
    assert best < 1.5


def test_without_torch_training_says_what_is_missing() -> None:
    found = subprocess.run(
        [sys.executable, "-c", FRESH, "train", "dates", "-o", "x.safetensors"],
        capture_output=True,
        text=True,
        timeout=60,
    )
    assert (found.returncode, found.stdout) == (2, "")
    assert found.stderr == "overt: training needs PyTorch: pip install 'overt[torch]'\n"


def test_no_answer_is_stored(translator: models.Translator) -> None:
    # Other parameters, other words: what is said comes from the numbers.
    flat = {name: array[::-1] if name == "target_embedding" else array
            for name, array in translator.checkpoint.parameters.items()}  # fmt: skip
    other = models.Translator(translator.checkpoint, layers.nested(flat))
    assert other.translate(["I love you."])[0][0].translation != "我爱你。"


def test_standard_input_comes_out_line_by_line(overt: Console, translator: models.Translator) -> None:
    text = "Where is she?\n\nI am a teacher.\r\nHe likes cats."
    out, _ = overt("translate", stdin=text.encode())
    alone = [overt("translate", line)[0] if line else "\n" for line in ("Where is she?", "", "I am a teacher.",
                                                                       "He likes cats.")]  # fmt: skip
    assert out == "".join(alone)
    assert overt("translate", stdin=b"")[0] == ""


def test_json_says_everything(overt: Console) -> None:
    lines = [
        json.loads(line) for line in overt("translate", "--json", stdin=b"He likes cats.\n\nGood!\n")[0].splitlines()
    ]
    assert [line["source"] for line in lines] == ["He likes cats.", "", "Good!"]
    assert lines[1]["translation"] == ""
    for line in lines:
        names = ["source", "translation", "score", "source_tokens", "target_tokens", "cut", "alignment"]
        assert list(line) == names
        assert line["cut"] is False
        assert np.shape(line["alignment"])[:1] == (len(line["target_tokens"]),)
        assert "".join(line["target_tokens"]).replace("▁", " ").strip() == line["translation"]
    wide = json.loads(overt("translate", "--json", "-n", "3", "He likes cats.")[0])
    assert wide["translation"] == lines[0]["translation"]
    assert len(wide["alternatives"]) == 2
    assert wide["score"] >= wide["alternatives"][0]["score"] >= wide["alternatives"][1]["score"]


def test_n_best_prefix_and_samples(overt: Console) -> None:
    rows = [line.split("\t") for line in overt("translate", "-n", "3", "He likes cats.")[0].splitlines()]
    assert [row[0] for row in rows] == ["1"] * 3
    assert len({row[2] for row in rows}) == 3
    assert overt("translate", "--prefix", "汤姆", "He likes cats.")[0].startswith("汤姆")
    drawn = [overt("translate", "--temperature", "3", "--seed", seed, "He likes cats.")[0] for seed in "0012"]
    assert drawn[0] == drawn[1]
    assert len(set(drawn)) > 1


def test_a_cut_translation_says_so(overt: Console) -> None:
    whole, error = overt("translate", "He likes cats.")
    assert error == ""
    out, error = overt("translate", "--max-length", "3", "-b", "1", "He likes cats.")
    assert out.strip() == whole[:3]
    assert error == "overt: the translation is cut at 3 tokens: --max-length allows for more\n"
    out, error = overt("translate", "--max-length", "5", "--json", stdin=b"Hi.\n\nHe likes cats very much.\n")
    assert error == "overt: the translation of line 3 is cut at 5 tokens: --max-length allows for more\n"
    assert [json.loads(line)["cut"] for line in out.splitlines()] == [False, False, True]
    assert "--max-length" in overt("translate", "--max-length", "0", "x", code=2)[1]


def test_shades_stand_under_their_words() -> None:
    from rich.cells import cell_len
    from rich.console import Console

    alignment = np.array([[0.95, 0.05, 0.0], [0.1, 0.5, 0.3], [0.0, 0.0, 0.45]])
    wide, tight = (
        table(("▁猫", "▁sat", "."), ("我", "ab", "▁"), alignment, Paper(Console(width=width, color_system=None))).plain
        for width in (80, 10)
    )
    rows = wide.splitlines()
    assert rows == ["    猫  sat  .", "我  ██", "ab      ▒▒▒  ░", "␣            ▒"]
    # Columns begin where their heads begin, in cells of the terminal.
    assert cell_len(rows[0].partition("sat")[0]) == cell_len(rows[2].partition("▒")[0]) == 8
    narrow = tight.split("\n\n")
    assert len(narrow) == 2
    assert all(cell_len(row) <= 10 for block in narrow for row in block.splitlines())


def test_show_prints_the_table(overt: Console) -> None:
    out = overt("translate", "--show", "I love you.")[0]
    first, empty, head, *_ = out.splitlines()
    assert (first, empty) == ("我爱你。", "")
    assert head.split() == ["i", "love", "you", "."]
    assert out.splitlines()[-2] == "share of what a word looked at, from  ░ 0.2  ▒ 0.4  ▓ 0.6  █ 0.8"


@pytest.mark.parametrize(
    ("arguments", "stdin", "message"),
    [
        (["translate", ""], b"", "the text is empty"),
        (["translate", "\x01\x02"], b"", "nothing but control characters"),
        (["translate", "word " * 10_000], b"", "the model reads 400 tokens"),
        (
            ["translate", "--model", "klingon", "x"],
            b"",
            "no bundled model: these are dates, en-zh",
        ),
        (["translate", "--model", __file__, "x"], b"", "not a complete safetensors file"),
        (["translate", "--show", "--json", "x"], b"", "leave out --show"),
        (["translate", "--temperature", "1", "-n", "2", "x"], b"", "leave out --n-best"),
        (["translate", "--temperature", "-1", "x"], b"", "temperature"),
        (["translate", "--beam", "0", "x"], b"", "--beam"),
    ],
)
def test_bad_input_is_one_line(overt: Console, arguments: list[str], stdin: bytes, message: str) -> None:
    out, error = overt(*arguments, stdin=stdin, code=2)
    assert out == ""
    assert error.startswith("overt: ")
    assert error.count("\n") == 1
    assert message in error


def test_what_stands_before_a_bad_line_is_not_lost(overt: Console) -> None:
    good = overt("translate", stdin=b"I see.\nHello!\n")[0]
    for bad, message in ((b"caf\xe9\n", "line 3: not UTF-8"), (b"word " * 10_000, "line 3 has 50000 characters")):
        out, error = overt("translate", stdin=b"I see.\nHello!\n" + bad, code=2)
        assert out == good
        assert message in error


def test_any_text_is_translated_somehow(overt: Console) -> None:
    odd = ["🙂🙂", "ʕ•ᴥ•ʔ", "漢字", "\u202eabc", "a" * 300, "I\x00 love\u200b you.", "%s {} [bold]\\n", "1234567890"]
    out = overt("translate", "--beam", "2", stdin="\n".join(odd).encode())[0]
    assert len(out.splitlines()) == len(odd)
    assert out.splitlines()[5] == overt("translate", "--beam", "2", "I love you.")[0].strip()


def test_torch_gives_the_same_tokens(translator: models.Translator) -> None:
    import torch

    tensors = {name: torch.from_numpy(array) for name, array in translator.checkpoint.parameters.items()}
    other = models.Translator(translator.checkpoint, layers.nested(tensors))
    texts = ["I love you.", "Tom is my friend.", "Where did you buy this book yesterday?"]
    ours, theirs = translator.translate(texts), other.translate(texts)
    assert [one[0].target_tokens for one in ours] == [one[0].target_tokens for one in theirs]


def test_copies_keep_the_alignment_and_no_model(translator: models.Translator) -> None:
    one = translator.translate(["Where is my book?"])[0][0]
    stored = pickle.dumps(one)
    assert len(stored) < 4000
    np.testing.assert_array_equal(pickle.loads(stored).alignment, one.alignment)


def test_scores_are_those_of_the_whole_sequence(translator: models.Translator) -> None:
    one = translator.translate(["Where is my book?"], penalty=0.0)[0][0]
    source = translator.checkpoint.source.numbers(one.source_tokens)
    target = translator.checkpoint.target.numbers(one.target_tokens)
    model: Any = translator.checkpoint.model
    scores = model.logits(
        translator.parameters, np.array([[*source, END]]), np.array([len(source) + 1]), np.array([[START, *target]])
    )[0]
    logs = np.log(layers.softmax(scores.astype(np.float64)))
    expected = logs[np.arange(len(target) + 1), [*target, END]].sum()
    assert abs(one.score - expected) < 1e-2
    assert abs(translator.align("Where is my book?", one.translation).score - expected) < 1e-2
    np.testing.assert_allclose(
        translator.align("Where is my book?", one.translation).alignment, one.alignment, atol=1e-5
    )


def test_dates_are_read_and_looked_at_where_they_stand() -> None:
    rng = np.random.default_rng(20_26)
    drawn = [dates.written(rng) for _ in range(1000)]
    found = dates.accuracy(models.load("dates"), drawn)
    assert found["exact"] >= 0.999
    assert found["aligned"] >= 0.95


def test_the_command_reads_dates(overt: Console, tmp_path: Path) -> None:
    assert overt("translate", "-m", "dates", "3 de febrero de 2024")[0] == "2024-02-03\n"
    # By its path it is the same model.
    path = str(models.translator.BUNDLED / "dates.safetensors")
    assert overt("translate", "-m", path, "5. September 1999")[0] == "1999-09-05\n"


@pytest.mark.parametrize(("model", "text"), [("en-zh", "I love you."), ("dates", "3 de febrero de 2024")])
def test_attentions_are_those_of_generation_step_by_step(model: str, text: str) -> None:
    used = models.load(model)
    one = used.translate([text], beam=1, replace_unknown=False)[0][0]
    found = used.attentions(one)
    cross = found["cross"]
    place = getattr(used.checkpoint.model, "alignment_layer", 0)
    np.testing.assert_allclose(cross[place].weights[0, 0, :-1, :-1], one.alignment, rtol=0, atol=1e-6)
    # Without what was written later: each step alone, from the state before it.
    source = np.array([[*used.checkpoint.source.numbers(one.source_tokens), END]])
    state = used.checkpoint.model.start(used.parameters, source, np.array([source.shape[1]]))
    for t, token in enumerate([START, *used.checkpoint.target.numbers(one.target_tokens)]):
        steps: dict[str, list[Any]] = {name: [] for name in found if name != "encoder"}
        watched = {
            {"cross": "cross_attention", "decoder": "attention"}[name]: layers.watched(several)
            for name, several in steps.items()
        }
        _, state = used.checkpoint.model.advance(used.parameters, state, np.array([[token]]), **watched)
        for name, several in steps.items():
            for step, seen in zip(several, found[name], strict=True):
                keys = step.weights.shape[-1]
                np.testing.assert_allclose(seen.weights[..., t, :keys], step.weights[..., 0, :], rtol=0, atol=1e-5)
                assert not seen.weights[..., t, keys:].any()


def test_show_translates_and_shows_every_attention(overt: Console, tmp_path: Path) -> None:
    found = json.loads(overt("show", "data", "I love you.", "--model", "en-zh")[0])["attentions"]
    assert [(part["name"], part["layer"]) for part in found] == [
        (name, layer) for name in ("encoder", "decoder", "cross") for layer in range(3)
    ]
    translation = overt("translate", "I love you.")[0].strip()
    written = [*translation, "<end>"]
    assert [part["queries"] for part in found] == [found[0]["tokens"]] * 3 + [written] * 6
    assert found[0]["tokens"] == found[6]["tokens"] == ["▁i", "▁love", "▁you", ".", "<end>"]
    assert found[3]["tokens"] == ["<start>", *translation]
    out, _ = overt("show", "I love you.", "--model", "en-zh", "--name", "cross", "--layer", "2", "--head", "0")
    assert out.startswith(f"I love you. → {translation}\n\nlayer 2 · cross · head 0 of 4 · 5 queries × 5 keys\n")
    out, _ = overt("show", "\x1b[31mYes\n", "--model", "en-zh", "--name", "cross", "--layer", "2")
    assert out.startswith("\\x1b[31mYes⏎ → ")
    page = tmp_path / "page.html"
    overt("show", "page", "I love you.", "--model", "en-zh", "-o", str(page))
    # Steps of a generation have a timeline; what was given has none.
    assert page.read_text().count('"prompt":0') == 6
    assert page.read_text().count('"prompt":null') == 3


@pytest.mark.parametrize(
    ("arguments", "words"),
    [
        (["I love you."], "with --model en-zh it translates a text"),
        (["--model", "en-zh"], "Missing argument 'WHAT...'"),
        (["", "--model", "en-zh"], "is empty: there is nothing to translate"),
        (["x", "--model", "en-zh", "--steps"], "--steps shows one attention, and there are 9"),
        (["x", "--model", "en-zh", "--layer", "7"], "nothing is left: the layers are [0, 1, 2]"),
        (["x", "--model", "nowhere.safetensors"], "nowhere.safetensors"),
    ],
)
def test_show_says_what_is_wrong(overt: Console, arguments: list[str], words: str) -> None:
    out, error = overt("show", *arguments, code=2)
    assert out == ""
    assert words in error
    assert error.count("\n") == 1
