"""What a reader does with the page, in a real browser."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
import torch

import overt
from chromium import IDLE, Opened, center, normal, settled, state
from overt.views import View
from overt.views.labels import Labelled

JOHN = [2 * normal(2, 4, 6, seed=i) for i in range(3)]


def sparse(T: int, cells: dict[tuple[int, int], float]) -> overt.Attended:
    """Weights as good as given: a bias of their logarithms, tiny elsewhere."""
    bias = np.full((1, T, T), -30.0)
    for place, weight in cells.items():
        bias[0][place] = np.log(weight)
    return overt.attend(np.zeros((1, T, 2)), np.zeros((1, T, 2)), np.zeros((1, T, 0)), bias=bias)


def test_a_click_on_a_dot_chooses_the_cell_that_made_it_dark(opened: Opened) -> None:
    T = 2100
    page = opened(View(sparse(T, {(t, (7 * t) % T): 1.0 for t in range(T)})))
    page.evaluate(IDLE)
    assert state(page, "matrix.view.sx") < 0.5
    for t in (300, 1203):
        page.mouse.click(*center(page, t, (7 * t) % T))
        settled(page)
        r, c = state(page, "query"), state(page, "key")
        # The dot holds no more than a few cells, one of them heavy.
        assert abs(r - t) < 6
        assert c == (7 * r) % T


def test_marks_that_a_text_merely_holds_make_no_words(opened: Opened) -> None:
    tokens = [f"t{i}" for i in range(30_000)]
    for i in (5, 9_000, 20_000):
        tokens[i] = "▁"
    # Marked tokens, then a long run without any: no word is longer than a vocabulary makes them.
    long = [f"▁w{i}" for i in range(4_000)] + [f"x{i}" for i in range(26_000)]
    q = np.zeros((1, 30_000, 1), np.float32)
    seen = overt.attend(q, q, q, mask=overt.causal())
    page = opened(View([Labelled(seen, tokens), Labelled(seen, long, layer=1)]))
    assert page.is_hidden("#words-label")
    page.keyboard.press("}")
    page.wait_for_selector("#where:has-text('layer 1')")
    page.evaluate(
        """() => { window.tiles = 0; const { tile } = overt.part;
          overt.part.tile = function (b, h, t0, t1, s0, s1) {
            window.tiles += (t1 - t0) * (s1 - s0); return tile.apply(this, arguments); }; }"""
    )
    page.check("#words")
    settled(page)
    assert state(page, "rows.length") < 4_000 + 26_000 / 60
    # Rows and columns of words and a slice of the picture, not the 900,000,000 cells of the whole at once.
    assert page.evaluate("tiles") < 100_000_000


def test_the_chosen_token_is_scrolled_into_view(opened: Opened) -> None:
    q = normal(1, 400, 4)
    page = opened(View(overt.attend(q, q, q), tokens=[f"quite a long token {i}" for i in range(400)]), width=900)
    page.click("#text-tab")
    page.evaluate("() => overt.go(200, 190)")
    settled(page)
    for name in ("keys", "queries"):
        box, chip = (page.locator(x).bounding_box() for x in (f"#{name}", f"#{name} .chosen"))
        assert box is not None
        assert chip is not None
        assert box["y"] <= chip["y"] <= box["y"] + box["height"] - chip["height"]


def test_edited_numbers_stay_while_one_looks_elsewhere(opened: Opened) -> None:
    q, k = normal(4, 3, 4), normal(2, 3, 4, seed=1)
    seen = overt.attend(q, k, k)
    page = opened(View([Labelled(seen), Labelled(seen, layer=1)]))
    page.click("#steps-tab")
    page.get_by_label("query 1, 2").fill("7.5")
    page.get_by_label("key 0, 0").fill("-3")
    page.evaluate("overt.choose(0, 1)")
    assert page.get_by_label("query 1, 2").input_value() != "7.5"
    # Heads 0 and 1 read the same key.
    assert page.get_by_label("key 0, 0").input_value() == "-3"
    page.evaluate("overt.choose(1, 2)")
    assert page.get_by_label("key 0, 0").input_value() != "-3"
    page.evaluate("overt.choose(0, 0)")
    assert page.get_by_label("query 1, 2").input_value() == "7.5"
    page.click("text=Put the numbers back")
    assert float(page.get_by_label("query 1, 2").input_value()) == pytest.approx(q[0, 1, 2], rel=1e-4)


def test_a_translation_opens_on_its_alignment(opened: Opened) -> None:
    parts = [
        Labelled(
            overt.attend(normal(2, T, 4), normal(2, S, 4), normal(2, S, 0)), list("abcdef")[:S], name=name, layer=i
        )
        for name, T, S in (("encoder", 5, 5), ("decoder", 4, 4), ("cross", 4, 5))
        for i in range(2)
    ]
    page = opened(View(parts))
    assert page.inner_text("#where") == "layer 1 · cross · mean of 2 heads · 4 queries × 5 keys"
    mean = np.mean(parts[-1].seen.weights[...], axis=0)
    np.testing.assert_allclose(page.evaluate("[...overt.cells(0, 4, 0, 5)]"), mean.reshape(-1), atol=1e-9)


def test_a_translation_opens_on_its_surest_pair_of_words(opened: Opened) -> None:
    # The ends look at each other most, then the full stops; among words it is the second and the third.
    weights = {(4, 4): 0.99, (3, 3): 0.98, (2, 1): 0.9, (0, 0): 0.6, (1, 2): 0.7}
    source, target = ["▁i", "▁love", "▁you", ".", "<end>"], ["我", "爱", "你", "。", "<end>"]
    parts = [Labelled(sparse(5, weights), source, target, name=name) for name in ("encoder", "cross")]
    page = opened(View(parts))
    assert (state(page, "query"), state(page, "key")) == (2, 1)
    assert page.locator("#cell .pair bdi").all_inner_texts() == ["你", "·love"]
    # Without words among the names it is the last query, as anywhere.
    page = opened(View(Labelled(sparse(5, weights), [*"12345"], [*"12345"], name="cross")))
    assert (state(page, "query"), state(page, "key")) == (4, 4)


@pytest.mark.parametrize("modifiers", [{"altKey": True}, {"altKey": True, "ctrlKey": True}])
def test_brackets_are_typed_as_the_keyboard_wants(opened: Opened, modifiers: dict[str, Any]) -> None:
    page = opened(View([Labelled(overt.attend(*JOHN), layer=layer) for layer in range(2)]))
    press = """([key, modifiers]) => document.body.dispatchEvent(
      new KeyboardEvent("keydown", { key, ...modifiers, bubbles: true, cancelable: true }))"""
    assert page.evaluate(press, ["]", modifiers]) is False
    page.wait_for_selector("#where:has-text('head 1')")
    page.evaluate(press, ["}", modifiers])
    page.wait_for_selector("#where:has-text('layer 1')")
    # What is no bracket stays a command of the browser.
    assert page.evaluate(press, ["d", modifiers]) is True


def test_names_are_thinned_not_dropped(opened: Opened) -> None:
    q = normal(1, 150, 4)
    page = opened(View(overt.attend(q, q, q), tokens=[f"name{i}" for i in range(150)]))
    drawn = page.evaluate(
        """() => new Promise((done) => {
          const { context } = overt.matrix, { fillText } = context, said = [];
          context.fillText = function (text) { said.push(text); fillText.apply(this, arguments); };
          overt.redraw();
          requestAnimationFrame(() => requestAnimationFrame(() => done(said)));
        })"""
    )
    assert len([text for text in drawn if text.startswith("name")]) > 30
    assert not [text for text in drawn if text.isdigit()]


class Layer(torch.nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.project = torch.nn.Linear(16, 48)

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        q, k, v = (y.unflatten(-1, (2, 8)).transpose(1, 2) for y in self.project(3 * x).chunk(3, -1))
        y = torch.nn.functional.scaled_dot_product_attention(q, k, v, is_causal=True)
        return x + y.transpose(1, 2).flatten(2)


def test_a_recording_of_a_long_text_opens(opened: Opened) -> None:
    T = 1305
    torch.manual_seed(0)
    model = torch.nn.Sequential(*(Layer() for _ in range(4)))
    with torch.no_grad(), overt.record(model) as rec:
        model(torch.randn(1, T, 16))
    page = opened(rec.view(tokens=[f"token {t}" for t in range(T)]))
    page.evaluate(IDLE)
    assert page.evaluate("overt.parts.length") == 4
    corner = f"(part) => [...part.tile(0, 1, {T - 3}, {T}, {T - 40}, {T})]"
    found = page.evaluate(f"() => Promise.all(overt.parts.map((part) => part.open())).then((x) => x.map({corner}))")
    for name, got in zip(rec, found, strict=True):
        expected = rec[name].weights[0, 1, T - 3 :, T - 40 :]
        got = np.reshape(got, expected.shape)
        np.testing.assert_allclose(got[:, :-2], expected[:, :-2], atol=1e-3)
        assert (got[0, -2:] == -1).all()
    for layer in (1, 2, 3):
        page.keyboard.press("}")
        page.wait_for_selector(f"#where:has-text('layer {layer}')")
    page.evaluate(IDLE)
    page.mouse.click(*center(page, 1000, 10))
    settled(page)
    assert abs(state(page, "query") - 1000) < 6
