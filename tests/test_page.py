"""The page in a real browser, offline: exact cells, every view, hostile names, and no request but for the file."""

from __future__ import annotations

import re
from base64 import b64encode
from collections.abc import Callable, Iterator
from importlib.resources import files
from itertools import pairwise
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from playwright.sync_api import Browser, Page

import overt
from chromium import IDLE, Opened, center, normal, settled, state, until
from overt.views import View
from overt.views.labels import Labelled, readable
from overt.views.notebook import reply
from overt.views.page import pieces
from overt.views.page.script import bundled
from overt.views.tiles import Tiles

B, H, G, T, S, D = 2, 4, 2, 9, 13, 6
Q, K, V = 2 * normal(B, H, T, D), 2 * normal(B, G, S, D, seed=1), normal(B, G, S, 0)
ROWS, KEYS = np.arange(T)[:, None], np.arange(S)
DISTANCE = KEYS - (ROWS + S - T)
BITS = np.random.default_rng(3).random((B, H, T, S)) < 0.6
SLOPES = np.array([0.1, 0.2, 0.4, 0.8])
LENGTHS = np.array([13, 4])
PADDED = LENGTHS[:, None, None, None] > KEYS
TABLE = normal(8, H, seed=4)
BUCKET = np.where(DISTANCE > 0, 4, 0) + np.where(
    np.abs(DISTANCE) < 2,
    np.abs(DISTANCE),
    np.minimum(2 + (np.log(np.maximum(np.abs(DISTANCE), 1) / 2) / np.log(9 / 2) * 2).astype(int), 3),
)
# What hides keys where a bias is asked for, whole rows of it and rows of the opposite.
FLOOR, CEILING = (np.float64(x) for x in (np.finfo(np.float32).min, np.finfo(np.float32).max))
HIDING = np.where((DISTANCE > 0) | (ROWS % 3 == 1), FLOOR, 0.0)
RAISING = np.where(ROWS == 3, CEILING, np.where(ROWS == 5, -1e9, 0.0)) + np.zeros(S)
# Options, and what they mean: cells kept, numbers added.
CASES: dict[str, tuple[dict[str, Any], Any, Any]] = {
    "plain": ({}, True, 0),
    "causal": ({"mask": overt.causal()}, DISTANCE <= 0, 0),
    "window": ({"mask": overt.window(2, 1)}, (DISTANCE >= -2) & (DISTANCE <= 1), 0),
    "padding": ({"mask": overt.padding(LENGTHS)}, PADDED, 0),
    "nothing": ({"mask": overt.padding(np.array([0, 4]))}, np.array([0, 4])[:, None, None, None] > KEYS, 0),
    "bits": ({"mask": BITS}, BITS, 0),
    "bits and span": ({"mask": overt.keep(BITS[:1, :1]) & overt.causal()}, BITS[:1, :1] & (DISTANCE <= 0), 0),
    "alibi": ({"bias": overt.alibi(SLOPES)}, True, -SLOPES[:, None, None] * np.abs(DISTANCE)),
    "alibi offset": (
        {"bias": overt.alibi(SLOPES, offset=np.array([1, 2]))},
        True,
        -SLOPES[:, None, None] * np.abs(KEYS - ROWS - np.array([1, 2])[:, None, None, None]),
    ),
    "relative": ({"bias": overt.relative(TABLE, max_distance=9)}, True, np.moveaxis(TABLE[BUCKET], -1, 0)),
    "dense": ({"bias": normal(B, H, T, S, seed=5)}, True, normal(B, H, T, S, seed=5)),
    "dense row": ({"bias": normal(H, 1, S, seed=6)}, True, normal(H, 1, S, seed=6)),
    "dense query": ({"bias": normal(B, 1, T, 1, seed=7)}, True, normal(B, 1, T, 1, seed=7)),
    "hiding": ({"bias": HIDING}, True, HIDING),
    "raising": ({"bias": RAISING, "sinks": SLOPES}, True, RAISING),
    "softcap": ({"softcap": 0.8, "mask": BITS}, BITS, 0),
    "sinks": ({"sinks": np.array([0.5, -1, 2, 9])}, True, 0),
    "all": ({"sinks": SLOPES, "softcap": 2.0, "mask": BITS, "bias": normal(T, S, seed=8)}, BITS, normal(T, S, seed=8)),
    "large": ({"score": overt.scaled_dot(40.0)}, True, 0),
    "cosine": ({"score": overt.cosine(7.0)}, True, 0),
    "bilinear": ({"score": overt.bilinear(normal(D, D))}, True, 0),
    "additive": ({"score": overt.additive(normal(5, D), normal(5, D, seed=1), normal(5), normal(5, seed=2))}, True, 0),
}


def scores(name: str, q: np.ndarray, k: np.ndarray) -> np.ndarray:
    """Scores in float64, with nothing of the views in them."""
    k = np.repeat(k, H // G, axis=1)
    if name == "cosine":
        q, k = (x / np.linalg.norm(x, axis=-1, keepdims=True) for x in (q, k))
        return 7 * q @ k.mT
    if name == "bilinear":
        return q @ normal(D, D) @ k.mT
    if name == "additive":
        query, key = q @ normal(5, D).T + normal(5, seed=2), k @ normal(5, D, seed=1).T
        return np.tanh(query[..., :, None, :] + key[..., None, :, :]) @ normal(5)
    return q @ k.mT * (40 if name == "large" else D**-0.5)


def weights(name: str, q: np.ndarray, k: np.ndarray) -> np.ndarray:
    """Weights (B, H, T, S), −1 where masked."""
    options, kept, bias = CASES[name]
    found, cap = scores(name, q, k), options.get("softcap")
    found = (found if cap is None else cap * np.tanh(found / cap)) + bias
    kept = np.broadcast_to(kept, found.shape)
    found = np.where(kept, found, -np.inf)
    sinks = np.broadcast_to(options.get("sinks", np.full(H, -np.inf))[:, None, None], (*found.shape[:-1], 1))
    top = np.maximum(found.max(axis=-1, keepdims=True), sinks)
    top = np.where(np.isfinite(top), top, 0)
    total = np.exp(found - top).sum(axis=-1, keepdims=True) + np.exp(sinks - top)
    return np.where(kept, np.exp(found - top) / np.where(total == 0, 1, total), -1)


CELLS = """() => Promise.all(overt.parts.map((part) => part.open())).then((parts) => parts.map((part) => {
  const found = [];
  for (let b = 0; b < part.B; b++)
    for (let h = 0; h < part.H; h++) found.push([...part.tile(b, h, 0, part.T, 0, part.S)]);
  return found;
}))"""


@pytest.mark.parametrize("dtype", [np.float16, np.float32, np.float64])
def test_cells_are_exact_for_the_numbers_stored(opened: Opened, dtype: Any) -> None:
    names = [name for name in CASES if dtype == np.float64 or name not in ("cosine", "bilinear", "additive")]
    q, k, v = (x.astype(dtype) for x in (Q, K, V))
    parts = []
    for layer, name in enumerate(names):
        options = dict(CASES[name][0])
        for option in ("bias", "sinks"):
            if isinstance(options.get(option), np.ndarray) and dtype != np.float64:
                options[option] = options[option].astype(np.float32)
        parts.append(Labelled(overt.attend(q, k, v, **options), name=name, layer=layer))
    page = opened(View(parts))
    for name, got in zip(names, page.evaluate(CELLS), strict=True):
        expected = weights(name, q.astype(np.float64), k.astype(np.float64))
        # Biases and sinks of half types are kept in float32, as they were given.
        atol = 1e-12 if dtype == np.float64 else 1e-6
        np.testing.assert_allclose(
            np.array(got, np.float64).reshape(expected.shape), expected, rtol=0, atol=atol, err_msg=name
        )
    stored = page.evaluate("overt.meta.parts.map((part) => part.q.dtype)")
    assert set(stored) == {np.dtype(dtype).name}


def test_cells_of_rounded_numbers_are_exact_for_these(opened: Opened) -> None:
    page = opened(View(overt.attend(Q, K, V, mask=overt.causal())), precision="float16")
    q, k = (x.astype(np.float16).astype(np.float64) for x in (Q, K))
    got = np.array(page.evaluate(CELLS)[0]).reshape(B, H, T, S)
    np.testing.assert_allclose(got, weights("causal", q, k), rtol=0, atol=1e-12)
    assert np.abs(got - weights("causal", Q, K)).max() > 1e-5
    assert "kept in float16" in page.inner_text("#where")


def test_statistics_and_overview_of_the_browser(opened: Opened) -> None:
    q, k = normal(2, 300, 8), normal(2, 310, 8, seed=1)
    seen = overt.attend(q, k, k, mask=overt.causal())
    page = opened(View(seen))
    page.wait_for_selector("#cell dt:has-text('entropy')")
    page.evaluate(IDLE)
    for h in range(2):
        scan = page.evaluate(
            f"() => {{ const s = overt.part.scan(0, {h}); return [[...s.received], [...s.entropy], [...s.largest]]; }}"
        )
        np.testing.assert_allclose(scan[0], seen.received()[h], atol=1e-9)
        np.testing.assert_allclose(scan[1], seen.entropy()[h], atol=1e-9)
        np.testing.assert_allclose(np.maximum(scan[2], 0), seen.map(256, 256)[h].reshape(-1), atol=1e-6)


def test_a_browser_without_quick_base64_reads_the_same(browser: Browser, tmp_path: Path) -> None:
    path = View(overt.attend(Q, K, V)).page(tmp_path / "page.html")
    page = browser.new_page(offline=True)
    page.add_init_script("delete Uint8Array.fromBase64")
    page.goto(path.as_uri())
    page.evaluate("overt.ready")
    assert page.evaluate("Uint8Array.fromBase64") is None
    np.testing.assert_allclose(
        np.array(page.evaluate(CELLS)[0]).reshape(B, H, T, S), weights("plain", Q, K), atol=1e-12
    )
    page.close()


def test_a_large_head_brings_its_overview_and_is_exact_where_one_looks(opened: Opened) -> None:
    q, k = (2 * normal(1, 2400, 64, seed=i, dtype=np.float32) for i in (0, 1))
    seen = overt.attend(q, k, k[..., :0], mask=overt.causal())
    page = opened(View(seen))
    page.evaluate(IDLE)
    overview = np.array(page.evaluate("[...overt.part.scan(0, 0).largest]")).reshape(256, 256)
    np.testing.assert_allclose(np.maximum(overview, 0), seen.map(256, 256)[0], rtol=1e-3, atol=1e-6)
    # A bin is masked where no query of it may look at any key of it: its last query stands before its first key.
    edges = np.arange(257) * 2400
    last, first = -(-edges[1:] // 256) - 1, edges[:-1] // 256
    assert np.array_equal(overview == -1, first > last[:, None])
    # What the idle page worked out in the meantime is the exact picture of the whole.
    assert "largest of each" in page.inner_text("#legend")
    page.locator("#grid").focus()
    page.keyboard.press("z")
    settled(page)
    assert "exact cells" in page.inner_text("#legend")
    got = page.evaluate("[...overt.part.tile(0, 0, 2000, 2100, 100, 300)]")
    exact = overt.attend(*(x.astype(np.float64) for x in (q, k, k[..., :0])), mask=overt.causal())
    np.testing.assert_allclose(np.reshape(got, (100, 200)), exact.weights[0, 2000:2100, 100:300], atol=1e-9)


@pytest.mark.parametrize(("T", "S", "D"), [(1, 1, 3), (1, 700, 3), (700, 1, 3), (3, 2000, 3), (2000, 3, 3), (4, 5, 0)])
def test_odd_shapes(opened: Opened, T: int, S: int, D: int) -> None:
    q, k = normal(2, T, D), normal(1, S, D)
    seen = overt.attend(q, k, k[..., :0], bias=normal(2, T, S))
    page = opened(View(seen, tokens=[f"▁key{i}" for i in range(S)], queries=[f"▁query{i}" for i in range(T)]))
    page.evaluate(IDLE)
    for key in ("z", "ArrowUp", "ArrowLeft", "+", "-", "0", "a", "w", "a", "PageUp", "Home", "d", "]"):
        page.keyboard.press(key)
        settled(page)
    t, s = T // 2, S // 2
    page.evaluate(f"overt.go({t}, {s})")
    settled(page)
    got = page.evaluate(f"overt.part.tile(0, 1, {t}, {t + 1}, {s}, {s + 1})[0]")
    assert got == pytest.approx(seen.weights[1, t, s], abs=1e-12)


def matrix(page: Page) -> Page:
    """The same page, its matrix in view."""
    page.click("#matrix-tab")
    return settled(page)


def john(**options: Any) -> View:
    return View(overt.attend(*JOHN, mask=overt.causal(), **options), tokens=["My", "name", "is", "John"])


JOHN = [2 * normal(2, 4, 6, seed=i) for i in range(3)]


def test_the_canvas_shows_the_weights(opened: Opened) -> None:
    page = matrix(opened(john()))
    w = overt.attend(*JOHN, mask=overt.causal()).weights[0]
    stops = np.array(state(page, "meta.stops"), float)
    settled(page)
    pixels = page.evaluate(
        """() => {
          const m = overt.matrix, { left, top } = m.inside, { width, height } = m.canvas, size = m.view.sx;
          const { data } = m.context.getImageData(0, 0, width, height);
          const at = (r, c) => 4 * (Math.floor(top + (r + 0.3) * size) * width + Math.floor(left + (c + 0.2) * size));
          return [0, 1, 2, 3].map((r) => [0, 1, 2, 3].map((c) => [...data.slice(at(r, c), at(r, c) + 4)]));
        }"""
    )
    for r, c in np.ndindex(4, 4):
        pixel = pixels[r][c]
        if c > r:
            # What is masked is hatched, in shades of its own.
            assert min(pixel[:3]) >= 0xA0
            assert max(pixel[:3]) <= 0xEA
            continue
        place = w[r, c] * (len(stops) - 1)
        low = min(int(place), len(stops) - 2)
        np.testing.assert_allclose(pixel[:3], stops[low] + (stops[low + 1] - stops[low]) * (place - low), atol=2)


def test_zoom_pan_and_hover(opened: Opened) -> None:
    q = normal(1, 200, 8)
    page = opened(View(overt.attend(q, q, q), tokens=[f"token{i}" for i in range(200)]))
    fit = state(page, "matrix.view")
    page.click("#in")
    assert state(page, "matrix.view.sx") > 1.5 * fit["sx"]
    page.click("#out")
    assert state(page, "matrix.view.sx") == pytest.approx(fit["sx"])
    x, y = center(page, 50, 80)
    page.mouse.move(x, y)
    for _ in range(12):
        page.mouse.wheel(0, -250)
    settled(page)
    assert state(page, "matrix.view.sx") > 20
    # The cell under the pointer stays there.
    assert center(page, 50, 80) == pytest.approx((x, y), abs=state(page, "matrix.view.sx"))
    before = state(page, "matrix.view")
    page.mouse.move(x, y)
    page.mouse.down()
    page.mouse.move(x - 60, y - 30, steps=4)
    page.mouse.up()
    after = state(page, "matrix.view")
    assert after["x"] - before["x"] == pytest.approx(60 / before["sx"], abs=0.01)
    assert after["y"] - before["y"] == pytest.approx(30 / before["sy"], abs=0.01)
    page.mouse.move(*center(page, 52, 82))
    weight = overt.attend(q, q, q).weights[0, 52, 82]
    assert page.inner_text("#tip").replace("  ", " ") == f"token52 → token82 {weight:.4g}"
    page.mouse.move(5, 5)
    assert page.is_hidden("#tip")
    page.click("#fit")
    assert state(page, "matrix.view") == fit


def test_click_select_and_lists(opened: Opened) -> None:
    page = matrix(opened(john()))
    w = overt.attend(*JOHN, mask=overt.causal()).weights[0]
    page.mouse.click(*center(page, 2, 1))
    settled(page)
    assert page.inner_text("#cell .pair").startswith("is 2 → name 1")
    facts = dict(
        zip(page.locator("#cell dt").all_inner_texts(), page.locator("#cell dd").all_inner_texts(), strict=True)
    )
    assert float(facts["weight"]) == pytest.approx(w[2, 1], rel=1e-6)
    seen = overt.attend(*JOHN, mask=overt.causal())
    assert float(facts["log-sum-exp of the query"]) == pytest.approx(seen.lse[0, 2], rel=1e-6)
    assert float(facts["entropy of the query, nats"]) == pytest.approx(seen.entropy()[0, 2], abs=1e-4)
    assert float(facts["received by the key"]) == pytest.approx(seen.received()[0, 1], abs=1e-4)
    assert page.inner_text("#row-title") == "What “is” looked at"
    order = np.argsort(-w[2], kind="stable")[:3]
    assert page.locator("#row-list bdi").all_inner_texts() == [["My", "name", "is", "John"][i] for i in order]
    np.testing.assert_allclose(
        [float(x) for x in page.locator("#row-list .number").all_inner_texts()], w[2, order], atol=1e-4
    )
    assert page.inner_text("#column-title") == "Who looked at “name”"
    assert sorted(page.locator("#column-list bdi").all_inner_texts()) == ["John", "is", "name"]
    page.click("#text-tab")
    settled(page)
    assert page.locator("#keys .chip.unseen").all_inner_texts() == ["John"]
    matrix(page)
    page.click("#column-list button >> nth=0")
    settled(page)
    assert state(page, "query") == 1 + int(np.argmax(w[1:, 1]))
    # Two queries: what both looked at, on average.
    page.keyboard.down("Shift")
    page.mouse.click(*center(page, 1, 0))
    page.mouse.click(*center(page, 3, 0))
    page.keyboard.up("Shift")
    settled(page)
    assert page.inner_text("#row-title") == "What “name”, “John” looked at, on average"
    mean = w[[1, 3]].mean(axis=0)
    np.testing.assert_allclose(
        [float(x) for x in page.locator("#row-list .number").all_inner_texts()], np.sort(mean)[::-1], atol=1e-4
    )
    page.keyboard.press("Escape")
    settled(page)
    assert page.inner_text("#row-title").endswith("looked at")
    page.click("#text-tab")
    page.click("#queries .chip >> nth=0")
    settled(page)
    assert state(page, "query") == 0


def test_keyboard(opened: Opened) -> None:
    parts = [
        Labelled(overt.attend(*JOHN, mask=overt.causal()), ["My", "name", "is", "John"], name="decoder", layer=layer)
        for layer in range(2)
    ]
    page = opened(View(parts))
    page.keyboard.press("PageUp")
    page.keyboard.press("Home")
    assert (state(page, "query"), state(page, "key")) == (0, 0)
    for key, place in (
        ("ArrowDown", (1, 0)),
        ("ArrowRight", (1, 1)),
        ("ArrowLeft", (1, 0)),
        ("ArrowUp", (0, 0)),
        ("End", (0, 3)),
    ):
        page.keyboard.press(key)
        assert (state(page, "query"), state(page, "key")) == place
    settled(page)
    assert page.inner_text("#status") == "query My, key John: masked"
    assert page.inner_text("#cell dd >> nth=0") == "masked"
    page.keyboard.press("]")
    page.wait_for_selector("#where:has-text('head 1')")
    page.keyboard.press("}")
    page.wait_for_selector("#where:has-text('layer 1')")
    assert page.locator(".thumb[aria-pressed=true]").get_attribute("aria-label") == "layer 1 · decoder, head 1"
    page.keyboard.press("?")
    assert page.is_visible("#keys-help")
    page.keyboard.press("Escape")
    assert page.is_hidden("#keys-help")
    page.click(".thumb >> nth=0")
    page.wait_for_selector("#where:has-text('layer 0 · decoder · head 0 of 2')")


def test_heads_together(opened: Opened) -> None:
    page = opened(john())
    w = overt.attend(*JOHN, mask=overt.causal()).weights[...]
    for how, expected in (("mean", w.mean(axis=0)), ("max", w.max(axis=0)), ("one", w[0])):
        page.select_option("#how", how)
        settled(page)
        got = np.reshape(page.evaluate("[...overt.cells(0, 4, 0, 4)]"), (4, 4))
        np.testing.assert_allclose(np.tril(got), expected, atol=1e-9)
        assert (got[np.triu_indices(4, 1)] == -1).all()
    page.locator("#how").blur()
    page.keyboard.press("a")
    assert page.input_value("#how") == "mean"


@pytest.mark.parametrize(
    ("tokens", "words"),
    [
        (["▁un", "believ", "able", "▁story", "</s>"], ["unbelievable", "story", "</s>"]),
        (["Un", "believ", "Ġnever", "ever", "Ġa"], ["Unbeliev", "neverever", "a"]),
        (["[CLS]", "play", "##ing", "##s", "well"], ["[CLS]", "playings", "well"]),
        (["lo@@", "w", "er", "ne@@", "w"], ["low", "er", "new"]),
    ],
)
def test_subwords_to_words(opened: Opened, tokens: list[str], words: list[str]) -> None:
    q, k, v = (normal(1, 5, 4, seed=i) for i in range(3))
    page = opened(View(overt.attend(q, k, v), tokens=tokens))
    page.check("#words")
    settled(page)
    assert page.locator("#keys .chip").all_inner_texts() == words
    sizes = page.evaluate("[...overt.columns.starts]")
    w = overt.attend(q, k, v).weights[0]
    # A word receives what its pieces receive and looks as they do on average.
    expected = [[w[a:b, c:d].sum() / (b - a) for c, d in pairwise(sizes)] for a, b in pairwise(sizes)]
    got = page.evaluate("[...overt.cells(0, overt.rows.length, 0, overt.columns.length)]")
    np.testing.assert_allclose(np.reshape(got, (3, 3)), expected, atol=1e-9)
    np.testing.assert_allclose(np.reshape(got, (3, 3)).sum(axis=1), 1, atol=1e-9)
    page.keyboard.press("w")
    page.locator("#words").blur()
    page.keyboard.press("w")
    settled(page)
    # The mark that a token begins a word is a dot.
    assert page.locator("#keys .chip").all_inner_texts() == [re.sub("^[▁Ġ]", "·", token) for token in tokens]


def test_cross_attention_has_its_own_names_and_batch_rows(opened: Opened) -> None:
    q, k = normal(3, 1, 4, 5), normal(3, 1, 6, 5, seed=1)
    seen = overt.attend(q, k, k)
    page = opened(View(Labelled(seen, list("abcdef"), list("WXYZ"), name="cross", layer=2)))
    assert page.locator("#keys .chip").all_inner_texts() == list("abcdef")
    assert page.locator("#queries .chip").all_inner_texts() == list("WXYZ")
    assert page.inner_text("#where") == "layer 2 · cross · row 0 · 4 queries × 6 keys"
    page.select_option("#row", "2")
    settled(page)
    np.testing.assert_allclose(
        np.reshape(page.evaluate("[...overt.cells(0, 4, 0, 6)]"), (4, 6)), seen.weights[2, 0], atol=1e-9
    )


def test_a_generation_has_a_timeline(opened: Opened) -> None:
    q = normal(1, 6, 4)
    seen = overt.attend(q, q, q, mask=overt.causal())
    page = opened(View(Labelled(seen, ["the", "cat", "sat", "on", "a", "mat"], prompt=3)))
    assert page.is_visible("#timeline")
    assert page.inner_text("#time-name") == "generated token 3 of 3"
    page.locator("#time").focus()
    page.keyboard.press("ArrowLeft")
    settled(page)
    assert page.inner_text("#time-name") == "generated token 2 of 3"
    assert page.locator("#keys .chip.unseen").all_inner_texts() == ["mat"]
    page.evaluate("() => { overt.go(1, 0); }")
    settled(page)
    assert page.inner_text("#time-name") == "prompt, token 1"
    page.evaluate("() => { overt.go(3, 0); }")
    page.click("#play")
    assert page.inner_text("#play") == "Pause"
    page.wait_for_selector("#time-name:has-text('generated token 2 of 3')", timeout=5000)
    page.click("#play")
    assert page.inner_text("#play") == "Play"


def test_dark_and_light(opened: Opened) -> None:
    def paper(page: Page) -> str:
        return page.evaluate("getComputedStyle(document.body).backgroundColor")

    page = matrix(opened(john(), scheme="dark"))
    assert paper(page) == "rgb(17, 20, 28)"
    dark = page.evaluate("overt.matrix.canvas.toDataURL()")
    page.click("#theme")
    settled(page)
    assert paper(page) == "rgb(250, 250, 247)"
    assert page.evaluate("overt.matrix.canvas.toDataURL()") != dark
    page.keyboard.press("d")
    settled(page)
    assert paper(page) == "rgb(17, 20, 28)"
    assert paper(opened(john())) == "rgb(250, 250, 247)"


STEPS = {
    "plain": {},
    "everything": {"mask": overt.causal(), "softcap": 3.0, "bias": normal(4, 4, seed=9), "sinks": np.array([0.3, 1.0])},
    "chosen scale": {"score": overt.scaled_dot(0.2)},
    "dot": {"score": overt.dot()},
    "cosine": {"score": overt.cosine(2.0)},
    "bilinear": {"score": overt.bilinear(normal(6, 6))},
    "additive": {"score": overt.additive(normal(3, 6), normal(3, 6, seed=1), normal(3), normal(3, seed=2))},
}


@pytest.mark.parametrize("name", STEPS)
def test_edited_numbers_are_computed_as_a_trace_does(opened: Opened, name: str) -> None:
    q, k, v = (x.copy() for x in JOHN)
    page = opened(View(overt.trace(q, k, v, **STEPS[name]), tokens=["My", "name", "is", "John"]))
    assert page.get_attribute("#steps-tab", "aria-selected") == "true"

    def compare() -> None:
        steps = overt.trace(q, k, v, **STEPS[name])
        found = {step["name"]: step for step in page.evaluate("overt.steps.compute()")}
        assert [x for x in steps.names if x != "hidden"] == list(found)
        for step in steps:
            if step.name == "hidden":
                continue
            expected = np.atleast_2d(step.array[0].reshape(len(step.array[0]), -1))
            got = np.array([[-np.inf if x is None else x for x in line] for line in found[step.name]["numbers"]], float)
            np.testing.assert_allclose(got, expected, atol=1e-9, err_msg=step.name)
            assert step.axes == found[step.name]["axes"]
            # The page keeps no step with an axis A of its own for every pair.
            if not (name == "additive" and step.name in ("scores", "projected query")):
                assert step.formula == found[step.name]["formula"]

    compare()
    page.get_by_label("query name, 2").fill("1.25")
    q[0, 1, 2] = 1.25
    page.get_by_label("key is, 0").fill("-3")
    k[0, 2, 0] = -3
    page.get_by_label("value John, 5").fill("0.5")
    v[0, 3, 5] = 0.5
    compare()
    shown = page.locator(".step:has(h3:has-text('output')) td").all_inner_texts()
    np.testing.assert_allclose(
        np.array(shown, float).reshape(4, 6), overt.attention(q, k, v, **STEPS[name])[0], atol=1e-4
    )
    # Half a number changes nothing and says so.
    page.get_by_label("query name, 2").fill("")
    assert page.get_by_label("query name, 2").get_attribute("aria-invalid") == "true"
    compare()
    page.click("text=Put the numbers back")
    q, k, v = JOHN
    compare()
    page.click("#matrix-tab")
    assert page.is_visible("#matrix")
    page.locator("#matrix-tab").focus()
    page.keyboard.press("ArrowRight")
    page.keyboard.press("ArrowRight")
    assert page.is_visible("#steps")


HOSTILE = [
    "<script>window.hacked=1</script>",
    "</script><script>window.hacked=1</script>",
    '"><img src=x onerror="window.hacked=1">',
    "<!-- <script>",
    "]]>",
    "javascript:window.hacked=1",
    "a\u202eevil\u202c",
    "\u2066\u200f",
    "👩\u200d👩\u200d👧🏽",
    "line\nbreak\r\t",
    "nul\0\x1b[31m",
    "x" * 20_000,
    "עברית",
    "",
    "\ud800",
    "&lt;b&gt;",
]


def test_hostile_names_show_as_text_and_run_nothing(opened: Opened) -> None:
    q = normal(1, len(HOSTILE), 4)
    page = opened(View(overt.trace(q, q, q), tokens=HOSTILE, title="</title><script>window.hacked=1</script>"))
    matrix(page)
    page.evaluate("() => { for (let i = 0; i < overt.rows.length; i++) overt.go(i, i); }")
    settled(page)
    for tab in ("compare", "steps", "text"):
        page.evaluate("(tab) => overt.tab(tab)", tab)
        settled(page)
    assert page.evaluate("window.hacked") is None
    assert page.locator("img, iframe, object, embed, base, link").count() == 0
    assert page.evaluate("[...document.scripts].filter((s) => s.type === '').length") == 1
    shown = page.locator("#keys .chip").evaluate_all("chips => chips.map((chip) => chip.textContent)")
    for token, text in zip(HOSTILE, shown, strict=True):
        assert text == readable(token) or (len(token) > 40 and text == readable(token)[:40] + "…")
    assert page.inner_text("h1") == "</title><script>window.hacked=1</script>"
    assert all(c.isprintable() or c == "\u200d" for text in shown for c in text)
    assert page.evaluate("document.documentElement.scrollWidth <= innerWidth")


def test_readable_on_a_phone(opened: Opened) -> None:
    parts = [
        Labelled(overt.attend(*JOHN), ["My", "name", "is", "x" * 500], layer=layer, name="self") for layer in range(9)
    ]
    page = opened(View(parts), width=390, height=800)
    assert page.evaluate("document.documentElement.scrollWidth") <= 390
    matrix(page)
    assert page.evaluate("document.documentElement.scrollWidth") <= 390
    assert page.locator("#matrix").bounding_box()["width"] > 340  # type: ignore[index]
    page = opened(View(overt.trace(*JOHN)), width=390, height=800)
    assert page.evaluate("document.documentElement.scrollWidth") <= 390


def test_everything_has_an_accessible_name(opened: Opened) -> None:
    page = opened(View(Labelled(overt.attend(*JOHN), ["▁My", "name", "▁is", "John"], prompt=2)))
    unnamed = page.evaluate(
        """() => {
          const named = (x) => x.getAttribute("aria-label") || x.getAttribute("aria-labelledby") || x.labels?.length
            || x.textContent.trim() || ["status", "rowgroup", "row", "gridcell"].includes(x.getAttribute("role"));
          const all = document.querySelectorAll("button, input, select, canvas:not([aria-hidden]), [role]");
          return [...all].filter((x) => !named(x)).map((x) => x.outerHTML);
        }"""
    )
    assert unnamed == []
    assert page.evaluate("document.documentElement.lang") == "en"


def test_a_notebook_shows_the_same_page(browser: Browser) -> None:
    page = browser.new_page(offline=True)
    page.set_content(f"<!doctype html><body>{john()._repr_mimebundle_()['text/html']}")
    frame = page.frames[1]
    frame.wait_for_selector("#cell .pair")
    assert frame.inner_text("#where") == "attention · head 0 of 2 · 4 queries × 4 keys"
    # The frame cannot reach what stands around it.
    assert frame.evaluate("origin") == "null"
    # The frame lies over a picture, which is there for where frames are taken out.
    on_top = "([x, y]) => document.elementFromPoint(x, y).tagName"
    assert page.evaluate(on_top, [200, 200]) == "IFRAME"
    page.evaluate("document.querySelector('iframe').remove()")
    assert page.evaluate(on_top, [200, 200]) == "IMG"
    assert page.evaluate("document.querySelector('img').naturalWidth") > 300
    page.close()


def test_a_widget_that_nobody_answers_is_a_picture(browser: Browser, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("overt.views.page._EDITABLE", 0)
    widget, page = john().widget(), browser.new_page(offline=True)
    asked: list[Any] = []

    def kernel(message: Any) -> tuple[Any, list[str]]:
        asked.append(message)
        # No page has asked for that.
        return {"id": "somebody else's"}, []

    page.expose_function("kernel", kernel)
    page.set_content("<!doctype html><body>")
    source, png = (files("overt.views.page") / "widget.js").read_text(), b64encode(widget.picture).decode()
    # Silence: what the kernel says is not passed on.
    silent = FRONT_END.replace("for (const listener of listeners) listener(answer, views);", "")
    assert silent != FRONT_END
    page.evaluate(silent, [source, widget.page, png])
    page.frames[1].wait_for_selector("#tabs, [role=tablist]", state="attached")
    page.wait_for_function("document.querySelector('iframe').style.visibility === 'hidden'")
    assert page.evaluate("document.elementFromPoint(200, 200).tagName") == "IMG"
    assert asked
    page.evaluate("for (const listener of model.listeners) listener({ id: 'late' }, [])")
    assert page.evaluate("document.querySelector('img')") is None
    assert page.evaluate("document.elementFromPoint(200, 200).tagName") == "IFRAME"
    page.close()


# A notebook whose front end is this browser and whose kernel is this test.
FRONT_END = """
async ([source, page, png]) => {
  const { default: widget } = await import(URL.createObjectURL(new Blob([source], { type: "text/javascript" })));
  const listeners = new Set(), picture = new DataView(Uint8Array.from(atob(png), (c) => c.charCodeAt(0)).buffer);
  window.model = {
    get: (name) => ({ page, title: "a <title>", picture })[name],
    on: (_, listener) => listeners.add(listener),
    off: (_, listener) => listeners.delete(listener),
    send: async (message) => {
      const [answer, buffers] = await kernel(message);
      const views = buffers.map((text) => new DataView(Uint8Array.from(atob(text), (c) => c.charCodeAt(0)).buffer));
      for (const listener of listeners) listener(answer, views);
    },
    listeners,
  };
  window.close = widget.render({ model: window.model, el: document.body });
}"""


@pytest.fixture
def notebook(
    browser: Browser, monkeypatch: pytest.MonkeyPatch
) -> Iterator[Callable[[View], tuple[Page, Any, list[Any]]]]:
    """Show the widget of a view: the page around it, its frame, and what was asked of Python."""
    pages, complaints = [], []
    # What is small is sent along and asks for nothing: here nothing is.
    monkeypatch.setattr("overt.views.page._EDITABLE", 0)

    def notebook(view: View) -> tuple[Page, Any, list[Any]]:
        page = browser.new_page(offline=True, viewport={"width": 1280, "height": 900})
        pages.append(page)
        page.on("console", lambda message: complaints.append(message.text))
        page.on("pageerror", lambda error: complaints.append(str(error)))
        tiles, asked = Tiles(view), []

        def kernel(message: Any) -> tuple[Any, list[str]]:
            asked.append(message)
            answer, buffers = reply(tiles, message)
            return answer, [b64encode(buffer).decode() for buffer in buffers]

        page.expose_function("kernel", kernel)
        page.set_content("<!doctype html><body>")
        widget = view.widget()
        source, png = (files("overt.views.page") / "widget.js").read_text(), b64encode(widget.picture).decode()
        page.evaluate(FRONT_END, [source, widget.page, png])
        frame = page.frames[1]
        frame.wait_for_selector("#cell .pair")
        frame.evaluate("overt.ready")
        frame.evaluate("() => overt.tab('matrix')")
        frame.evaluate(IDLE)
        return page, frame, asked

    yield notebook
    for page in pages:
        page.close()
    assert complaints == []


LATE = "([act, ...given]) => new Promise((done) => overt.attempt(() => done([...overt.part[act](...given)])))"


def _covers(outer: dict[str, Any], inner: dict[str, Any]) -> bool:
    alike = all(outer[name] == inner[name] for name in ("row", "heads", "how"))
    return alike and all(outer[axis][0] <= inner[axis][0] and inner[axis][1] <= outer[axis][1] for axis in "ts")


@pytest.mark.parametrize("name", ["causal", "padding", "bits", "all", "additive"])
def test_a_widget_shows_what_python_computes(notebook: Callable[..., Any], name: str) -> None:
    view = View(overt.attend(Q, K, V, **CASES[name][0]))
    page, frame, asked = notebook(view)
    expected = weights(name, Q, K)
    for h in range(H):
        got = frame.evaluate(LATE, ["tile", 1, h, 0, T, 0, S])
        np.testing.assert_allclose(np.reshape(got, (T, S)), expected[1, h], rtol=0, atol=1e-12)
    scan = frame.evaluate("(() => { const s = overt.part.scan(1, 3); return [[...s.received], [...s.entropy]]; })()")
    np.testing.assert_allclose(scan[0], view.parts[0].seen.received()[1, 3], atol=1e-12)
    np.testing.assert_allclose(scan[1], view.parts[0].seen.entropy()[1, 3], atol=1e-12)
    # Whatever lies in a region that is here, or on its way, is not asked for again.
    regions = [ask for ask in asked if ask["what"] == "cells"]
    regions.sort(key=lambda ask: int(ask["id"].split()[1]))
    for i, one in enumerate(regions):
        assert not [other for other in regions[:i] if _covers(other, one)], regions
    # Another head, all of them, a click and the pointer: what is not here yet comes.
    frame.evaluate("() => overt.choose(0, 2, 1)")
    frame.evaluate("() => overt.go(8, 3)")
    weight = expected[1, 2, 8, 3]
    shown = "masked" if weight == -1 else page.evaluate("(w) => w.toPrecision(7)", weight)
    until(frame, f"document.querySelector('#cell dd').textContent === '{shown}'")
    frame.evaluate("() => overt.setHow('mean')")
    kept = np.maximum(expected[1, :, 8, 3], 0).mean()
    shown = "masked" if (expected[1, :, 8, 3] == -1).all() else page.evaluate("(w) => w.toPrecision(7)", kept)
    until(frame, f"document.querySelector('#cell dd').textContent === '{shown}'")
    assert frame.evaluate("overt.matrix.exact")


def test_a_widget_of_a_long_head_asks_for_what_is_seen(notebook: Callable[..., Any]) -> None:
    q, k = (2 * normal(2, 3000, 16, seed=i, dtype=np.float32) for i in (0, 1))
    seen = overt.attend(q, k, k[..., :0], mask=overt.causal())
    page, frame, asked = notebook(View(seen, tokens=[f"▁token{i}" for i in range(3000)]))
    until(frame, "overt.matrix.cached.values !== null")
    values = np.array(frame.evaluate("[...overt.matrix.cached.values]"))
    # The page asks again when its frame has got its size.
    pictures = [ask for ask in asked if ask["what"] == "picture"]
    picture = next(ask for ask in reversed(pictures) if ask["rows"] * ask["columns"] == values.size)
    values = values.reshape(picture["rows"], picture["columns"])
    expected = seen.map(picture["rows"], picture["columns"])[0]
    np.testing.assert_allclose(np.maximum(values, 0), expected, rtol=0, atol=1e-6)
    assert (values[0, 9:] == -1).all()
    assert "largest of each" in frame.inner_text("#legend")
    frame.locator("#grid").focus()
    page.keyboard.press("z")
    until(frame, "overt.matrix.exact")
    settled(frame)
    assert "exact cells" in frame.inner_text("#legend")
    box = frame.evaluate("overt.matrix.window")
    rows, columns = slice(box["r0"], box["r1"]), slice(box["c0"], box["c1"])
    values = np.array(frame.evaluate("[...overt.matrix.cached.values]")).reshape(
        box["r1"] - box["r0"], box["c1"] - box["c0"]
    )
    np.testing.assert_allclose(np.maximum(values, 0), seen.weights[0, rows, columns], rtol=0, atol=1e-6)
    # The mean of heads is shown cell by cell, or by their overviews.
    page.keyboard.press("a")
    page.keyboard.press("0")
    until(frame, "document.querySelector('#legend').textContent.includes('overview')")
    page.keyboard.press("w")
    until(frame, "overt.rows.starts && document.querySelector('#legend').textContent.includes('overview')")
    assert max((ask["t"][1] - ask["t"][0]) * (ask["s"][1] - ask["s"][0]) for ask in asked if ask["what"] == "cells") < (
        1 << 18
    )


def test_a_widget_sorts_heads_by_all_that_tells_them_apart(notebook: Callable[..., Any], opened: Opened) -> None:
    q, k = (3 * normal(4, 30, 8, seed=i) for i in (0, 1))
    tokens = ["my", "name", "is", "john", "and"] * 6
    view = View(overt.attend(q, k, k, mask=overt.causal()), tokens=tokens)
    _, frame, _ = notebook(view)
    until(frame, "[0, 1, 2, 3].every((h) => overt.part.scan(0, h))")
    like = "[0, 1, 2, 3].map((h) => overt.part.scan(0, h).like)"
    found = frame.evaluate(like)
    page = opened(view)
    until(page, "[0, 1, 2, 3].every((h) => overt.part.scan(0, h))")
    for got, expected in zip(found, page.evaluate(like), strict=True):
        assert list(got) == ["entropy", "first", "previous", "induction"]
        assert got == pytest.approx(expected, abs=1e-12)
    weights = np.asarray(view.parts[0].seen.weights)
    previous = [np.diagonal(w, -1).mean() for w in weights]
    assert [one["previous"] for one in found] == pytest.approx(previous, abs=1e-12)
    frame.select_option("#order", "induction")
    order = sorted(range(4), key=lambda h: -found[h]["induction"])
    until(frame, f"document.querySelector('#overview .thumb small').textContent.startsWith('0.{order[0]} ')")


def test_a_frame_that_grows_late_is_filled(notebook: Callable[..., Any]) -> None:
    page, frame, _ = notebook(View(overt.attend(Q, K, V)))
    large = frame.evaluate("overt.matrix.view.sy")
    for height, fits in (("200px", "<"), ("720px", "===")):
        page.evaluate("(height) => { document.querySelector('iframe').style.height = height; }", height)
        until(frame, f"overt.matrix.view.sy {fits} {large}")


def test_what_python_refuses_is_said(notebook: Callable[..., Any]) -> None:
    page, frame, _ = notebook(john())
    frame.evaluate("() => overt.attempt(() => overt.part.tile(0, 5, 0, 1, 0, 1))")
    frame.wait_for_selector("#status:has-text('there is no head 5: give 0…1')")
    assert page.evaluate("model.listeners.size") == 1
    page.evaluate("close()")
    assert page.evaluate("model.listeners.size") == 0


def test_a_turned_phone_keeps_the_place(opened: Opened) -> None:
    q = normal(1, 60, 8)
    page = opened(View(overt.attend(q, q, q)), width=390, height=800)
    assert page.evaluate("overt.matrix.canvas.style.touchAction") == "pan-y"
    page.set_viewport_size({"width": 800, "height": 390})
    settled(page)
    assert state(page, "matrix.view") == pytest.approx(page.evaluate("({ x: 0, y: 0, ...overt.matrix.fitting })"))
    page.evaluate("() => { overt.go(30, 40); overt.matrix.reveal(30, 40, true); }")
    assert page.evaluate("overt.matrix.canvas.style.touchAction") == "none"
    zoomed = state(page, "matrix.view.sx")
    page.set_viewport_size({"width": 390, "height": 800})
    settled(page)
    assert state(page, "matrix.view.sx") == zoomed


def test_the_policy_allows_one_script_and_nothing_else(opened: Opened) -> None:
    page = opened(john())
    policy = page.get_attribute("meta[http-equiv=Content-Security-Policy]", "content")
    assert policy is not None
    assert policy.startswith("default-src 'none'; script-src 'sha256-")
    assert "unsafe" not in policy
    assert "http" not in "".join(pieces(john())).replace("http-equiv", "")


def test_modules_are_scopes_of_their_own_and_import_one_way(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    folder = tmp_path
    (folder / "one.js").write_text('import { f } from "./two.js";\nconst secret = 1;\nwindow.found = f() + secret;\n')
    (folder / "two.js").write_text(
        "// Says 2.\nconst secret = /** @type {number} */ (2);\nexport function f() {\n  return secret;\n}\n"
    )
    (folder / "three.js").write_text('import { g } from "./four.js";\n')
    (folder / "four.js").write_text('import { f } from "./three.js";\n')
    monkeypatch.setattr("overt.views.page.script.files", lambda _: folder)
    bundled.cache_clear()
    assert bundled("one") == (
        '"use strict";\nconst two_js = (() => {\nconst secret = (2);\nfunction f() {\n'
        "return secret;\n}\nreturn { f };\n})();\n"
        "const one_js = (() => {\nconst {f} = two_js;\nconst secret = 1;\n"
        "window.found = f() + secret;\nreturn {  };\n})();\n"
    )
    with pytest.raises(ValueError, match="three → four → three"):
        bundled("three")
    bundled.cache_clear()


def test_the_comparison_case_is_small() -> None:
    parts = [
        Labelled(
            overt.attend(*(normal(4, 1024, 16, seed=3 * layer + i, dtype=np.float32) for i in range(3))), layer=layer
        )
        for layer in range(4)
    ]
    assert sum(map(len, pieces(View(parts)))) <= 3_000_000
