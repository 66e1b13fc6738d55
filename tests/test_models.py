"""Vocabularies, files, decoding, and translation from text to text."""

from __future__ import annotations

import functools
import gzip
import itertools
from collections import Counter
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st

from overt import layers, models
from overt.errors import ArgumentError, FileError
from overt.models import (
    Checkpoint,
    Limit,
    Recurrent,
    Transformer,
    Translator,
    Vocabulary,
    checkpoint,
    decoding,
)
from overt.models.initial import initial
from overt.models.vocabulary import END, SPECIAL, UNKNOWN, _atoms, _pieces, normalized, padded
from overt.training import corpus, lexicon

TEXTS = ["the cat sat on the mat.", "the dog sat on the cat!", "don't sit, dogs.", "猫坐在垫子上。"] * 2


@pytest.mark.parametrize("kind", ["characters", "words", "bpe"])
def test_known_text_survives(kind: Any) -> None:
    vocabulary = Vocabulary.learn(TEXTS, kind, size=40 if kind == "bpe" else 1000)
    for text in TEXTS:
        numbers = vocabulary.numbers(vocabulary.split(text))
        assert UNKNOWN not in numbers
        assert vocabulary.join(vocabulary.tokens[number] for number in numbers) == text
    assert Vocabulary.of(vocabulary.described()) == vocabulary


VOCABULARIES = [Vocabulary.learn(TEXTS, kind, size=20) for kind in ("characters", "words", "bpe")]


@given(st.text(max_size=60))
def test_any_text_is_cut_without_loss(text: str) -> None:
    for vocabulary in VOCABULARIES:
        expected = normalized(text)
        # Only words are kept with joiners that the vocabulary does not know.
        if vocabulary.kind != "words":
            expected = expected.translate({0x200C: None, 0x200D: None})
        assert vocabulary.join(vocabulary.split(text)) == expected


def test_byte_pairs_are_merged_most_frequent_first() -> None:
    vocabulary = Vocabulary.learn(["abab ab abc"] * 3, "bpe", size=3)
    # "ab" stands four times, then "▁ab" three times, then "▁abab" and "▁abc" once: the later in the alphabet first.
    assert vocabulary.merges == (("a", "b"), ("▁", "ab"), ("▁ab", "c"))
    assert vocabulary.split("abc abab") == ["▁abc", "▁ab", "ab"]


def merged(parts: list[str], pair: tuple[str, str]) -> list[str]:
    """One merge, from the left."""
    found: list[str] = []
    for part in parts:
        if found and (found[-1], part) == pair:
            found[-1:] = [pair[0] + part]
            # What has just grown is no first half again.
            found.append("")
        else:
            found.append(part)
    return [part for part in found if part]


@given(st.lists(st.text("ab \u0301", min_size=1, max_size=12), min_size=1, max_size=6), st.integers(0, 12))
def test_byte_pairs_are_those_of_the_definition(texts: list[str], size: int) -> None:
    vocabulary = Vocabulary.learn(texts, "bpe", size=size, least=1)
    pieces = [list(cluster) for text in texts for cluster in _pieces(normalized(text), "bpe")]
    alphabet = set(Vocabulary.learn(texts, "bpe", size=0, least=1).tokens)
    rows = [_atoms("".join(piece), alphabet) for piece in pieces]
    found = []
    while len(found) < size:
        counts = Counter(pair for row in rows for pair in itertools.pairwise(row))
        best, most = max(counts.items(), key=lambda item: (item[1], item[0]), default=(("", ""), 0))
        if most < 2:
            break
        found.append(best)
        rows = [merged(row, best) for row in rows]
    assert list(vocabulary.merges) == found
    for text in texts:
        assert vocabulary.split(text) == [
            part
            for piece in _pieces(normalized(text), "bpe")
            for part in functools.reduce(merged, found, _atoms(piece, alphabet))
        ]


# Hindi, Thai, vocalised Arabic and Hebrew, Persian with U+200C, Tamil, Lithuanian; as a reader counts characters.
MARKED = {
    "हिन्दी": "हि|न्|दी",
    "น้ำที่": "น้|ำ|ที่",
    "كِتَابٌ": "كِ|تَ|ا|بٌ",
    "שָׁלוֹם": "שָׁ|ל|וֹ|ם",
    "می\u200cخواهم": "م|ی\u200c|خ|و|ا|ه|م",
    "தமிழ்": "த|மி|ழ்",
    "ė̃jo": "ė̃|j|o",
}


@pytest.mark.parametrize("word", MARKED)
def test_no_word_is_cut_at_its_marks(word: str) -> None:
    texts = [f"{word} {word}. x{word}"] * 2
    assert Vocabulary.learn(texts, "words", size=99).split(texts[0]) == [f"▁{word}", f"▁{word}", ".", f"▁x{word}"]
    assert Vocabulary.learn(texts, "bpe", size=99).split(word) == [f"▁{word}"]
    characters = Vocabulary.learn(texts, "characters", size=99)
    assert characters.split(word) == MARKED[word].split("|")
    assert Vocabulary.of(characters.described()).split(word) == MARKED[word].split("|")


def test_signs_that_are_one_stay_one() -> None:
    signs = ["👩\u200d🚀", "👨\u200d👩\u200d👧", "🇩🇪", "👍🏽", "❤️", "1️⃣"]
    for kind in ("characters", "words", "bpe"):
        vocabulary = Vocabulary.learn([" ".join(signs)] * 2, kind, size=99)
        assert [token.strip("▁") for token in vocabulary.split(" ".join(signs)) if token != "▁"] == signs
    assert Vocabulary.learn(["🇩🇪🇫🇷"] * 2, "words", size=9).split("🇩🇪🇫🇷") == ["▁🇩🇪", "🇫🇷"]


def test_rare_characters_with_marks_are_spelt_by_their_parts() -> None:
    for kind in ("characters", "bpe"):
        vocabulary = Vocabulary.learn(["दि दी"] * 2 + ["नि", "नी"], kind, size=99 if kind == "characters" else 0)
        # Each of the two was seen once only, their parts twice.
        tokens = vocabulary.split("नि")
        assert tokens[-2:] == ["न", "ि"]
        assert UNKNOWN not in vocabulary.numbers(tokens[-2:])
        assert vocabulary.words(vocabulary.split("दि नि")) == (
            [0, 1, 2, 2] if kind == "characters" else [0, 0, 1, 1, 1]
        )


def test_joiners_stay_where_they_join() -> None:
    assert normalized("می\u200cخواهم") == "می\u200cخواهم"
    assert normalized("\u200cab \u200d c\u200c") == "ab c\u200c"
    # Nobody who has never seen one is troubled by it.
    vocabulary = Vocabulary.learn(["abc"] * 2, "characters", size=9)
    assert vocabulary.split("a\u200db\u200c") == ["a", "b"]
    assert normalized("e\x00\u0301") == "é"


def test_bundled_vocabularies_spell_as_before() -> None:
    source = models.load("en-zh").checkpoint.source
    assert source.split("हिन्दी I'm") == ["▁", *"हिन्दी", "▁i", "'m"]


def test_merges_left_out_change_the_pieces_and_not_the_text() -> None:
    vocabulary = Vocabulary.learn(TEXTS, "bpe", size=100)
    cut = [vocabulary.split(TEXTS[0], skip=0.5, rng=np.random.default_rng(i)) for i in range(20)]
    assert len({tuple(pieces) for pieces in cut}) > 5
    assert {vocabulary.join(pieces) for pieces in cut} == {TEXTS[0]}
    assert cut[3] == vocabulary.split(TEXTS[0], skip=0.5, rng=np.random.default_rng(3))


def test_pieces_know_their_words() -> None:
    vocabulary = Vocabulary.learn(TEXTS, "bpe", size=3)
    tokens = vocabulary.split("don't sit.")
    spelt = ["", "", "", ""]
    for token, word in zip(tokens, vocabulary.words(tokens), strict=True):
        spelt[word] += token
    assert spelt == ["▁don", "'t", "▁sit", "."]
    assert Vocabulary.learn(TEXTS, "characters", size=99).words(["猫", "坐"]) == [0, 1]


def test_a_lexicon_finds_what_stands_together() -> None:
    # Words 0 … 4 are translated as 10 … 14, the first two in reverse; 15 translates nothing.
    rng = np.random.default_rng(0)
    pairs = []
    for _ in range(300):
        source = rng.permutation(5)[:3]
        pairs.append((source.tolist(), [*(source[[1, 0, 2]] + 10).tolist(), 15]))
    found = lexicon.alignments(pairs)
    assert found[0].shape == (4, 3)
    assert np.mean([one[:3].argmax(axis=1) == [1, 0, 2] for one in found]) > 0.95
    assert np.mean([one[:3].max(axis=1) for one in found]) > 0.8
    assert np.mean([one[3].sum() for one in found]) < 0.5


def test_control_characters_and_forms_are_unified() -> None:
    assert normalized(" a\x00b\u200b\tc \ud800\n") == "ab c"
    assert normalized("Ｉ’ｍ", fold=True) == "i'm"
    assert normalized("好？") == "好？"


def translator(kind: str = "transformer", seed: int = 0, **sizes: Any) -> Translator:
    """One that was never trained."""
    source, target = (Vocabulary.learn(TEXTS, kind, size=30, fold=True) for kind in ("bpe", "characters"))
    model: Any = (
        Transformer(len(source), len(target), width=16, heads=2, inner=32, encoder_layers=2, decoder_layers=2)
        if kind == "transformer"
        else Recurrent(len(source), len(target), width=8, state=12, inner=8)
    )
    model = replace(model, **sizes)
    arrays = initial(model.shapes(), np.random.default_rng(seed))
    return Translator.of(Checkpoint(model, source, target, arrays, {"note": "untrained"}))


KINDS = ["transformer", "rnn"]


@pytest.mark.parametrize("kind", KINDS)
def test_step_by_step_is_all_at_once(kind: str) -> None:
    t = translator(kind)
    model: Any = t.checkpoint.model
    rng = np.random.default_rng(0)
    source, lengths = padded([rng.integers(4, 20, n) for n in (7, 3, 5)])
    target = rng.integers(4, 20, (3, 6))
    whole = model.logits(t.parameters, source, lengths, target)
    state = model.start(t.parameters, source, lengths)
    for i in range(6):
        scores, state = model.advance(t.parameters, state, target[:, i : i + 1])
        np.testing.assert_allclose(scores[:, 0], whole[:, i], atol=1e-5)
    # Padding changes nothing, and rows can be picked in any order.
    alone = model.logits(t.parameters, source[1:2, :3], lengths[1:2], target[1:2])
    np.testing.assert_allclose(alone[0], whole[1], atol=1e-5)
    # Rows of one source that stand together are its beams, as often as they are picked anew.
    state, rows = model.start(t.parameters, source, lengths), np.arange(3)
    for i, kept in enumerate(([2, 0, 0], [1, 2, 0, 0], [3, 2, 0, 1], [0, 0, 2, 3, 2, 2], [5, 1])):
        state, rows = state.select(np.array(kept)), rows[kept]
        scores, state = model.advance(t.parameters, state, target[rows, i : i + 1])
        np.testing.assert_allclose(scores[:, 0], whole[rows, i], atol=1e-5)


@pytest.mark.parametrize("kind", KINDS)
def test_torch_gives_the_same_tokens(kind: str) -> None:
    t = translator(kind)
    tensors = {name: torch.from_numpy(array) for name, array in t.checkpoint.parameters.items()}
    other = Translator(t.checkpoint, layers.nested(tensors))
    for ours, theirs in zip(
        t.translate(TEXTS, beam=3, n_best=3), other.translate(TEXTS, beam=3, n_best=3), strict=True
    ):
        assert [one.target_tokens for one in ours] == [one.target_tokens for one in theirs]
        np.testing.assert_allclose(ours[0].alignment, theirs[0].alignment, atol=1e-5)


class Table:
    """A language model of one word of memory, as a state for decoding."""

    def __init__(self, logs: np.ndarray, rows: int) -> None:
        self.logs, self.rows = logs, rows

    def select(self, rows: np.ndarray) -> Table:
        return Table(self.logs, len(rows))

    @staticmethod
    def step(state: Table, tokens: np.ndarray) -> tuple[np.ndarray, Table]:
        assert len(tokens) == state.rows
        return state.logs[tokens], state


def every(logs: np.ndarray, longest: int, penalty: float) -> list[tuple[tuple[int, ...], float]]:
    """All sequences and their scores, best first."""
    scores = logs.copy()
    scores[:, [0, 1]] = -np.inf
    scores -= np.log(np.exp(scores).sum(axis=1, keepdims=True))
    found = []
    words = [token for token in range(2, logs.shape[0]) if token != END]
    for n in range(longest + 1):
        for tokens in itertools.product(words, repeat=n):
            path = (1, *tokens, END)
            total = sum(scores[a, b] for a, b in itertools.pairwise(path))
            found.append((tokens, total / ((5 + n + 1) / 6) ** penalty))
    return sorted(found, key=lambda item: -item[1])


@pytest.mark.parametrize("penalty", [-1.0, 0.0, 1.0])
@pytest.mark.parametrize("seed", range(8))
def test_a_wide_beam_finds_the_best_of_all(seed: int, penalty: float) -> None:
    logs = np.random.default_rng(seed).normal(size=(7, 7)) * 2
    best = every(logs, 4, penalty)
    found = decoding.beam_search(
        Table.step, Table(logs, 2), rows=2, limits=[4, 4], width=700, count=10, penalty=penalty
    )
    for row in found:
        assert [one.tokens for one in row] == [tokens for tokens, _ in best[:10]]
        np.testing.assert_allclose([one.score for one in row], [score for _, score in best[:10]])


def test_greedy_takes_the_likeliest_and_stops_at_the_limit() -> None:
    logs = np.full((6, 6), -9.0)
    logs[1, 4], logs[4, 5], logs[5, 4] = 0, 0, 0
    short, long = decoding.beam_search(Table.step, Table(logs, 2), rows=2, limits=[3, 6], width=1)
    assert short[0].tokens == (4, 5, 4)
    assert long[0].tokens == (4, 5, 4, 5, 4, 5)
    # Whatever a longer text would be worth.
    logs[4, END] = 1
    found = decoding.beam_search(Table.step, Table(logs, 1), rows=1, limits=[6], width=1, penalty=9.0)
    assert found[0][0].tokens == (4,)
    assert (
        decoding.beam_search(Table.step, Table(logs, 1), rows=1, limits=[6], penalty=9.0)[0][0].score
        > found[0][0].score
    )


def test_the_largest_of_many_are_found() -> None:
    rng = np.random.default_rng(0)
    for N, count in ((4, 4), (5, 3), (19, 2), (100, 7), (2391, 10), (11955, 1)):
        x = rng.permuted(np.tile(np.arange(N, dtype=np.float32), (9, 1)), axis=1)
        np.testing.assert_array_equal(decoding.largest(x, count), np.argsort(-x, axis=1)[:, :count])


def test_a_prefix_comes_first() -> None:
    logs = np.random.default_rng(0).normal(size=(7, 7))
    found = decoding.beam_search(Table.step, Table(logs, 1), rows=1, limits=[4], width=5, count=5, prefixes=[[5, 6]])
    assert len(found[0]) == 5
    assert all(one.tokens[:2] == (5, 6) for one in found[0])


def test_samples_are_drawn_by_their_probability() -> None:
    logs = np.random.default_rng(3).normal(size=(7, 7))
    rows = 4000
    rngs = [np.random.default_rng(i) for i in range(rows)]
    found = decoding.sample(Table.step, Table(logs, rows), rows=rows, limits=[4] * rows, temperature=1.0, rngs=rngs)
    empty = sum(one[0].tokens == () for one in found) / rows
    expected = next(np.exp(score) for tokens, score in every(logs, 2, 0.0) if tokens == ())
    assert abs(empty - expected) < 0.03
    greedy = decoding.beam_search(Table.step, Table(logs, 1), rows=1, limits=[4], width=1, penalty=0.0)
    for temperature in (1e-3, 5e-324):
        cold = decoding.sample(
            Table.step, Table(logs, 2), rows=2, limits=[4] * 2, temperature=temperature, rngs=rngs[:2]
        )
        assert cold[0][0].tokens == greedy[0][0].tokens


@pytest.mark.parametrize("kind", KINDS)
def test_translations_hold_what_they_say(kind: str) -> None:
    t = translator(kind)
    many = t.translate(TEXTS, beam=4, n_best=2)
    for text, found in zip(TEXTS, many, strict=True):
        # Alone or among others.
        assert t.translate([text], beam=4)[0][0].translation == found[0].translation
        assert found[0].score >= found[1].score
        for one in found:
            assert one.source == text
            assert one.alignment.shape == (len(one.target_tokens), len(one.source_tokens))
            assert np.all(one.alignment >= 0)
            assert np.all(one.alignment.sum(axis=1) <= 1 + 1e-5)


def test_unknown_words_are_copied_from_where_they_looked() -> None:
    t = translator("transformer", target_size=len(SPECIAL))
    flat = {name: a[: len(SPECIAL)] if name == "target_embedding" else a for name, a in t.checkpoint.parameters.items()}
    known = replace(t.checkpoint.target, tokens=SPECIAL)
    t = Translator.of(replace(t.checkpoint, target=known, parameters=flat))
    one = t.translate(["zebra the cat"])[0][0]
    left = t.translate(["zebra the cat"], replace_unknown=False)[0][0]
    assert set(left.target_tokens) <= {"<unknown>"}
    assert one.target_tokens == tuple(one.source_tokens[i] for i in one.alignment.argmax(axis=1))


def test_what_cannot_be_translated_is_refused() -> None:
    t = translator()
    for text, message in (
        ("", "text 2 of 2 is empty"),
        (" \t ", "text 2 of 2 is empty"),
        ("\x00\x01", "nothing but control characters"),
        ("word " * 10_000, "has 50000 characters, the model reads 400 tokens"),
        ("a " * 500, "has 1000 tokens, the model reads 400"),
    ):
        with pytest.raises(ArgumentError, match=message):
            t.translate(["fine", text])
    with pytest.raises(ArgumentError, match="a beam of 2 holds no 3"):
        t.translate(["fine"], beam=2, n_best=3)
    with pytest.raises(ArgumentError, match="temperature"):
        t.translate(["fine"], temperature=float("nan"))
    with pytest.raises(ArgumentError, match="prefix 'é'"):
        t.translate(["fine"], prefix="é")
    assert t.translate([]) == []


def test_checkpoints_come_back(tmp_path: Path) -> None:
    for kind in KINDS:
        t = translator(kind)
        path = tmp_path / f"{kind}.safetensors"
        checkpoint.save(path, t.checkpoint)
        again = models.load(path)
        assert again.checkpoint.model == t.checkpoint.model
        assert again.checkpoint.card == {"note": "untrained"}
        assert again.translate(TEXTS)[0][0].translation == t.translate(TEXTS)[0][0].translation
    assert sorted(file.name for file in tmp_path.iterdir()) == ["rnn.safetensors", "transformer.safetensors"]


def test_what_is_no_checkpoint_is_refused(tmp_path: Path) -> None:
    t, path = translator(), tmp_path / "model.safetensors"
    checkpoint.save(path, t.checkpoint)
    data = path.read_bytes()
    for content, message in (
        (b"", "not a complete safetensors file"),
        (data[: len(data) // 2], "not a complete safetensors file"),
        (b"PK\x03\x04 a pickle, perhaps" * 99, "not a complete safetensors file"),
    ):
        path.write_bytes(content)
        with pytest.raises(FileError, match=message):
            models.load(path)
    checkpoint.write(path, {"weight": np.zeros(3)}, "another", {})
    with pytest.raises(FileError, match="no overt encoder-decoder 1"):
        models.load(path)
    few = {name: a for name, a in t.checkpoint.parameters.items() if name != "target_embedding"}
    checkpoint.save(path, replace(t.checkpoint, parameters=few))
    with pytest.raises(FileError, match="contradicts itself at target_embedding"):
        models.load(path)
    checkpoint.write(path, {}, checkpoint.FORMAT, {"architecture": "lstm"})
    with pytest.raises(FileError, match="does not describe a model"):
        models.load(path)
    steering = replace(t.checkpoint.target, tokens=(*t.checkpoint.target.tokens[:-1], "\x1b[31m"))
    checkpoint.save(path, replace(t.checkpoint, target=steering))
    with pytest.raises(FileError, match="a token holds control characters"):
        models.load(path)
    for missing, message in (("none.safetensors", "is no checkpoint, and no bundled model"), ("", "cannot read")):
        with pytest.raises(FileError, match=message):
            models.load(tmp_path / missing)
    with pytest.raises(FileError, match="cannot write"):
        checkpoint.save(tmp_path / "no" / "model.safetensors", t.checkpoint)


WRONG = [
    ("model", {"width": 16.0}, "width must be a whole number of at least 1, not 16.0"),
    ("model", {"state": 64.0}, "state must be a whole number"),
    ("model", {"heads": True}, "heads must be a whole number"),
    ("model", {"inner": 0}, "inner must be a whole number"),
    ("model", {"width": "16"}, "width must be a whole number"),
    ("model", {"encoder_layers": 200_000}, "are not enough for so many layers"),
    ("model", {"encoder_layers": 10**400}, "are not enough for so many layers"),
    ("model", {"decoder_layers": "2"}, "does not describe a model"),
    ("model", {"alignment_layer": None}, "alignment_layer must be a whole number"),
    ("model", {"attentive": 1}, "attentive must be true or false"),
    ("model", {"colour": 1}, "does not describe a model"),
    ("source", {"kind": "syllables"}, "a vocabulary has a kind"),
    ("source", {"fold": 1}, "a vocabulary has a kind"),
    ("source", {"tokens": "abc"}, "a vocabulary has a kind"),
    ("source", {"tokens": [1, 2]}, "does not describe a model"),
    ("source", {"tokens": ["a", "a"]}, "two tokens are the same"),
    ("source", {"merges": ["a "]}, "a merge is of two parts"),
    ("source", {"merges": ["a b c"]}, "a merge is of two parts"),
    ("source", {"merges": 7}, "does not describe a model"),
    ("limit", {"ratio": "2"}, "the ratio of a limit must be a number"),
    ("limit", {"extra": float("inf")}, "the extra of a limit must be a number"),
    ("limit", {"more": 1}, "does not describe a model"),
]


@pytest.mark.parametrize(("part", "changes", "message"), WRONG)
def test_wrong_types_in_a_checkpoint_are_one_error(
    tmp_path: Path, part: str, changes: dict[str, Any], message: str
) -> None:
    kind = "rnn" if {"state", "attentive"} & set(changes) else "transformer"
    t, path = translator(kind), tmp_path / "model.safetensors"
    checkpoint.save(path, t.checkpoint)
    arrays, described = checkpoint.read(path, checkpoint.FORMAT)
    checkpoint.write(path, arrays, checkpoint.FORMAT, {**described, part: {**described[part], **changes}})
    with pytest.raises(FileError, match=message):
        models.load(path)


def test_what_is_no_number_is_no_parameter(tmp_path: Path) -> None:
    t, path = translator(), tmp_path / "model.safetensors"
    checkpoint.save(path, t.checkpoint)
    arrays, described = checkpoint.read(path, checkpoint.FORMAT)
    for wrong, message in (
        ({**arrays, "source_embedding": arrays["source_embedding"].astype(np.int32)}, "source_embedding as int32"),
        ({**arrays, "source_embedding": arrays["source_embedding"][:, :1]}, "contradicts itself at source_embedding"),
    ):
        checkpoint.write(path, wrong, checkpoint.FORMAT, described)
        with pytest.raises(FileError, match=message):
            models.load(path)
    for wrong_described in (
        [],
        {**described, "card": []},
        {**described, "model": 3},
        {**described, "architecture": []},
    ):
        checkpoint.write(path, arrays, checkpoint.FORMAT, wrong_described)
        with pytest.raises(FileError, match="does not describe a model"):
            models.load(path)
    from safetensors.numpy import save_file

    save_file(arrays, path, {"format": checkpoint.FORMAT, "overt": "[" * 100_000})
    with pytest.raises(FileError, match="not a complete safetensors file"):
        models.load(path)


def test_no_bit_may_change(tmp_path: Path) -> None:
    t, path = translator(), tmp_path / "model.safetensors"
    checkpoint.save(path, t.checkpoint)
    data = path.read_bytes()
    rng = np.random.default_rng(0)
    # In the parameters, and in what is said of them.
    for place in (len(data) - 5, *rng.integers(8, len(data), 60).tolist()):
        path.write_bytes(data[:place] + bytes([data[place] ^ 1 << int(rng.integers(8))]) + data[place + 1 :])
        try:
            again = models.load(path)
        except FileError:
            continue
        # Some of the file is white space and the like.
        assert again.checkpoint.card == t.checkpoint.card
        for name, array in t.checkpoint.parameters.items():
            np.testing.assert_array_equal(again.checkpoint.parameters[name], array)


def test_arrays_come_back_as_they_are(tmp_path: Path) -> None:
    arrays = {"none": np.zeros((0, 3)), "one": np.float32(7)[()], "turned": np.arange(6.0).reshape(2, 3).T}
    checkpoint.write(tmp_path / "x", {name: np.asarray(array) for name, array in arrays.items()}, "some", {"a": 1})
    found, described = checkpoint.read(tmp_path / "x", "some")
    assert described == {"a": 1}
    for name, array in arrays.items():
        assert found[name].shape == array.shape
        np.testing.assert_array_equal(found[name], array)


def test_limits_come_from_the_pairs_and_are_kept(tmp_path: Path) -> None:
    limit = Limit.learn([(10, 50)] * 5000 + [(10, 400)])
    assert limit == Limit(6.25, 20)
    assert (limit.of(1), limit.of(10), limit.of(400)) == (27, 83, checkpoint.MOST)
    assert Limit.learn([]) == Limit()
    t, path = translator(), tmp_path / "model.safetensors"
    checkpoint.save(path, replace(t.checkpoint, limit=limit))
    assert models.load(path).checkpoint.limit == limit
    # Who says nothing of it, such as the bundled models, has room for five characters a piece.
    arrays, described = checkpoint.read(path, checkpoint.FORMAT)
    del described["limit"]
    checkpoint.write(path, arrays, checkpoint.FORMAT, described)
    assert models.load(path).checkpoint.limit == models.load("en-zh").checkpoint.limit == Limit(10.0, 20)


@pytest.mark.parametrize("options", [{"beam": 1}, {"beam": 4, "n_best": 2, "penalty": 9.0}, {"temperature": 0.01}])
def test_what_is_cut_says_so(options: dict[str, Any]) -> None:
    t = translator()
    # Untrained, it never comes to an end by itself.
    whole = t.translate(TEXTS[:2], max_length=9, replace_unknown=False, **options)
    assert {(len(one.target_tokens), one.cut) for found in whole for one in found} == {(9, True)}
    assert whole[0][0].described()["cut"]
    kept = Translator(replace(t.checkpoint, limit=Limit(1.0, 2)), t.parameters).translate(TEXTS[:1], **options)
    assert len(kept[0][0].target_tokens) == len(kept[0][0].source_tokens) + 2
    with pytest.raises(ArgumentError, match="max_length must be at least 1"):
        t.translate(TEXTS, max_length=0)
    # What must be written is written, and the end comes behind it.
    assert t.translate(TEXTS[:1], prefix="猫坐在垫", max_length=2, **options)[0][0].target_tokens == tuple("猫坐在垫")


def test_what_ends_at_the_limit_by_itself_is_not_cut() -> None:
    logs = np.full((6, 6), -9.0)
    logs[1, 3], logs[3, 4], logs[4, 5], logs[5, END] = 0, 0, 0, 0
    for limit, cut in ((2, True), (3, False), (4, False)):
        one = decoding.beam_search(Table.step, Table(logs, 1), rows=1, limits=[limit], width=1)[0][0]
        assert (one.tokens, one.cut) == ((3, 4, 5)[:limit], cut)


def test_corpora_name_the_line_that_is_wrong(tmp_path: Path) -> None:
    path, other = tmp_path / "pairs.tsv", tmp_path / "other.txt"
    path.write_bytes(b"a\tb\tby whom\nc\td\r\n")
    assert corpus.read([path]) == [("a", "b"), ("c", "d")]
    path.write_bytes(gzip.compress(b"a\tb\n"))
    assert corpus.read([path]) == [("a", "b")]
    for content, message in (
        (b"a\tb\nc d\n", r"pairs.tsv, line 2: no tab"),
        (b"a\tb\n\t\n", r"line 2: the source is empty"),
        (b"a\tb\nc\t \n", r"line 2: the translation is empty"),
        (b"a\tb\n\xff\td\n", r"line 2: not UTF-8"),
        (b"", "holds no pairs"),
        (gzip.compress(b"a\tb\n" * 999)[:-12], "damaged gzip"),
    ):
        path.write_bytes(content)
        with pytest.raises(FileError, match=message):
            corpus.read([path])
    path.write_text("a\nb\n")
    other.write_text("c\n")
    with pytest.raises(FileError, match=r"has 2 lines and .*other.txt 1"):
        corpus.read([path, other])
    other.write_text("c\nd\n")
    assert corpus.read([path, other]) == [("a", "c"), ("b", "d")]


def test_the_split_keeps_a_sentence_on_one_side() -> None:
    pairs = [(f"sentence {i % 2000}", str(i)) for i in range(4000)]
    train, dev, test = corpus.split(pairs)
    sides = [{source for source, _ in part} for part in (train, dev, test)]
    assert sum(map(len, sides)) == 2000
    assert all(60 < len(part) < 150 for part in (dev, test))
    # The hash of the stripped source, so that it is the same for everyone.
    assert [len(part) for part in corpus.split([("I love you.", "x"), (" I love you. ", "y")])] == [2, 0, 0]
