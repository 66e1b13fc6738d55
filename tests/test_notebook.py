"""The widget's Python side: messages in, cells, pictures and statistics out."""

from __future__ import annotations

import sys
from typing import Any

import numpy as np
import pytest

import overt
from overt.errors import ArgumentError, OvertError
from overt.views import View
from overt.views.labels import Labelled
from overt.views.notebook import reply
from overt.views.tiles import Tiles


def normal(*shape: int, seed: int = 0, dtype: Any = np.float64) -> np.ndarray:
    return np.random.default_rng([seed, *shape]).normal(size=shape).astype(dtype)


B, H, G, T, S = 2, 4, 2, 11, 17
Q, K = 2 * normal(B, H, T, 6), 2 * normal(B, G, S, 6, seed=1)
BITS = np.random.default_rng(3).random((B, H, T, S)) < 0.6
CAUSAL = np.arange(S) <= np.arange(T)[:, None] + S - T
PADDED = np.arange(S) < np.array([17, 4])[:, None, None, None]
OPTIONS: dict[str, tuple[dict[str, Any], Any]] = {
    "plain": ({}, True),
    "causal": ({"mask": overt.causal(), "sinks": np.array([0.5, -1, 2, 9])}, CAUSAL),
    "padding": ({"mask": overt.padding(np.array([17, 4])), "softcap": 2.0}, PADDED),
    "bits": ({"mask": BITS, "bias": normal(H, T, S, seed=5)}, BITS),
    "additive": ({"score": overt.additive(normal(5, 6), normal(5, 6, seed=1), normal(5))}, True),
}


@pytest.fixture(params=OPTIONS)
def case(request: pytest.FixtureRequest) -> tuple[overt.Attended, np.ndarray]:
    """Attention and its cells, −1 where masked."""
    options, kept = OPTIONS[request.param]
    seen = overt.attend(Q, K, K, **options)
    return seen, np.where(np.broadcast_to(kept, (B, H, T, S)), np.asarray(seen.weights), -1)


def ask(seen: overt.Attended, what: str, heads: list[int], t: list[int], s: list[int], **more: Any) -> list[np.ndarray]:
    tiles = Tiles(View([Labelled(seen, layer=layer) for layer in range(2)]))
    return tiles.answer({"what": what, "part": 1, "row": 1, "heads": heads, "t": t, "s": s, **more})


def test_cells_of_a_head(case: tuple[overt.Attended, np.ndarray]) -> None:
    seen, cells = case
    (got,) = ask(seen, "cells", [3], [2, 9], [1, 17], how="one")
    np.testing.assert_allclose(got, cells[1, 3, 2:9, 1:17], rtol=0, atol=1e-14)


@pytest.mark.parametrize("how", ["mean", "max"])
def test_cells_of_all_heads(case: tuple[overt.Attended, np.ndarray], how: str) -> None:
    seen, cells = case
    (got,) = ask(seen, "cells", [0, 1, 2, 3], [0, T], [0, S], how=how)
    some = np.maximum(cells[1], 0)
    expected = some.max(axis=0) if how == "max" else some.mean(axis=0)
    np.testing.assert_allclose(got, np.where((cells[1] == -1).all(axis=0), -1, expected), rtol=0, atol=1e-14)


def largest(cells: np.ndarray, rows: int, columns: int) -> np.ndarray:
    """Largest cell of each bin ⌊i·L/n⌋ ≤ index < ⌈(i+1)·L/n⌉."""
    cuts = [
        [(i * n // count, -(-(i + 1) * n // count)) for i in range(count)]
        for n, count in zip(cells.shape, (rows, columns), strict=True)
    ]
    return np.array([[cells[a:b, c:d].max() for c, d in cuts[1]] for a, b in cuts[0]])


def test_a_picture_of_a_window(case: tuple[overt.Attended, np.ndarray]) -> None:
    seen, cells = case
    (got,) = ask(seen, "picture", [1, 2], [1, 9], [2, 17], rows=3, columns=4)
    expected = largest(cells[1, 1:3, 1:9, 2:17].max(axis=0), 3, 4)
    assert expected.max() > 0
    np.testing.assert_allclose(got, expected, rtol=0, atol=1e-7)


def test_slices_of_a_scan_make_the_whole(case: tuple[overt.Attended, np.ndarray]) -> None:
    seen, cells = case
    picture, received, entropy = np.full((4, 5), -1.0), np.zeros(S), np.zeros(T)
    for start, end in ((0, 4), (4, 5), (5, T)):
        some = ask(seen, "scan", [2], [start, end], [0, S], rows=4, columns=5)
        picture = np.maximum(picture, some[0])
        received += some[1]
        entropy[start:end] = some[2]
    np.testing.assert_allclose(picture, largest(cells[1, 2], 4, 5), rtol=0, atol=1e-7)
    np.testing.assert_allclose(received, seen.received()[1, 2], rtol=0, atol=1e-13)
    np.testing.assert_allclose(entropy, seen.entropy()[1, 2], rtol=0, atol=1e-13)


def test_pairs_of_queries_and_keys(case: tuple[overt.Attended, np.ndarray], monkeypatch: pytest.MonkeyPatch) -> None:
    seen, cells = case
    monkeypatch.setattr("overt.views.tiles._SIDE", 4)
    keys = np.random.default_rng(0).integers(-1, S, T - 1)
    (got,) = ask(seen, "pairs", [2], [1, T], [0, S], keys=keys.tolist())
    expected = np.where(keys < 0, -1, cells[1, 2][np.arange(1, T), keys])
    np.testing.assert_allclose(got, expected, rtol=0, atol=1e-14)


def test_the_score_of_a_cell(case: tuple[overt.Attended, np.ndarray]) -> None:
    seen, cells = case
    t, s = np.argwhere(cells[1, 2] > 0)[7]
    ((score, lse),) = ask(seen, "score", [2], [int(t), int(t) + 1], [int(s), int(s) + 1])
    assert lse == seen.lse[1, 2, t]
    assert np.exp(score - lse) == pytest.approx(cells[1, 2, t, s], abs=1e-14)


def test_a_length_that_no_matrix_would_bear() -> None:
    """The whole matrix would have 10¹² cells."""
    x = normal(1, 1_000_000, 4, dtype=np.float32)
    seen = overt.attend(x, x, x[..., :0], mask=overt.window(2, 0))
    tiles = Tiles(View(seen))
    (got,) = tiles.answer(
        {"what": "cells", "part": 0, "row": 0, "heads": [0], "t": [999_000, 999_004], "s": [998_998, 999_010]}
    )
    np.testing.assert_array_equal(np.maximum(got, 0), seen.weights[0, 999_000:999_004, 998_998:999_010])
    assert np.array_equal(got[0] == -1, [False] * 3 + [True] * 9)


GOOD = {"what": "cells", "part": 0, "row": 0, "heads": [0], "t": [0, 2], "s": [0, 2]}


@pytest.mark.parametrize(
    ("message", "words"),
    [
        (None, "a message asks for one of cells"),
        ({"what": "files"}, "not {'what': 'files'}"),
        ({"what": ["cells"]}, "a message asks for one of cells"),
        (GOOD | {"part": 1}, "there is no part 1: give 0…0"),
        (GOOD | {"row": "0"}, "row must be a whole number"),
        (GOOD | {"heads": [4]}, "there is no head 4: give 0…3"),
        (GOOD | {"heads": []}, "heads must be a list of heads"),
        (GOOD | {"t": [2, 2]}, "t goes from 2 to 2: give 0 ≤ start < end ≤ 11"),
        (GOOD | {"s": [0, 18]}, "s goes from 0 to 18"),
        (GOOD | {"s": 3}, "s must be a list of two positions"),
        (GOOD | {"how": "least"}, 'how must be "mean" or "max"'),
        (GOOD | {"what": "picture", "rows": 3, "columns": 1}, "rows is 3: give 1…2"),
        (GOOD | {"what": "pairs", "keys": [1]}, "keys must be a list of a key for each of 2 queries"),
        (GOOD | {"what": "pairs", "keys": [1, 17]}, "there is no key 17: give −1…16"),
        (GOOD | {"what": "scan", "rows": 0, "columns": 1}, "rows is 0: give 1…11"),
    ],
)
def test_messages_that_make_no_sense(message: Any, words: str) -> None:
    tiles = Tiles(View(overt.attend(Q, K, K)))
    with pytest.raises(ArgumentError) as caught:
        tiles.answer(message)
    assert words in str(caught.value)
    answer, buffers = reply(tiles, message)
    assert words in answer["error"]
    assert buffers == []


def test_too_many_cells_are_not_sent() -> None:
    x = normal(1, 5000, 2, dtype=np.float32)
    with pytest.raises(ArgumentError, match="5000 × 5000 cells are too many to be sent at once"):
        Tiles(View(overt.attend(x, x, x))).answer(GOOD | {"t": [0, 5000], "s": [0, 5000]})


def test_the_widget_answers() -> None:
    view = View(overt.attend(Q, K, K), title="<b>")
    widget, sent = view.widget(), []
    widget.send = lambda *message: sent.append(message)
    widget._handle_custom_msg(GOOD | {"id": "x 1"}, [])
    ((answer, buffers),) = sent
    assert answer == {"id": "x 1", "dtypes": ["float64"]}
    got = np.frombuffer(buffers[0], "<f8").reshape(2, 2)
    np.testing.assert_allclose(got, np.asarray(view.parts[0].seen.weights)[0, 0, :2, :2], rtol=0, atol=1e-14)
    assert widget.title == "<b>"
    assert "<h1>&lt;b&gt;</h1>" in widget.page


def test_the_page_of_a_widget_holds_no_numbers() -> None:
    sizes = [len(View(overt.attend(x, x, x)).widget().page) for x in (normal(1, 1000, 64), normal(1, 9000, 64))]
    assert max(sizes) - min(sizes) < 100


def test_without_anywidget(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "anywidget", None)
    with pytest.raises(OvertError, match=r"pip install 'overt\[jupyter\]'"):
        View(overt.attend(Q, K, K)).widget()


def test_windows_of_rows_with_large_sums_are_those_of_whole_rows() -> None:
    q, k = (normal(1, 2, 30, 8, seed=i, dtype=np.float32) for i in range(2))
    bias = np.full((30, 30), 9876.5, np.float32)
    seen = overt.attend(q, k, k, mask=overt.causal(), bias=bias)
    whole = np.asarray(seen.weights)[0, 1]
    tiles = Tiles(View([Labelled(seen)]))
    message = {"part": 0, "row": 0, "heads": [1], "t": [10, 20], "s": [3, 9]}
    (cells,) = tiles.answer(message | {"what": "cells"})
    np.testing.assert_array_equal(cells, whole[10:20, 3:9])
    (picture,) = tiles.answer(message | {"what": "picture", "rows": 10, "columns": 6})
    np.testing.assert_array_equal(picture, whole[10:20, 3:9])
