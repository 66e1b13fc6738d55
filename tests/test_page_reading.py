"""What the page says of itself and how a reader finds something in it, in a real browser."""

from __future__ import annotations

import csv
import io
import math
import re
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from click.testing import CliRunner
from playwright.sync_api import Page

import overt
from chromium import IDLE, Opened, normal, settled, state
from overt.cli.show import command
from overt.views import View
from overt.views.files import load
from overt.views.labels import Labelled

WORDS = ["<s>", "▁My", "▁name", "▁is", "▁John", "▁and", "▁my", "▁name", "▁is", "</s>"]


def given(weights: np.ndarray, **options: Any) -> overt.Attended:
    """Attention whose weights are as good as these."""
    H, T, S = weights.shape
    with np.errstate(divide="ignore"):
        bias = np.maximum(np.log(weights), -60)
    return overt.attend(np.zeros((H, T, 1)), np.zeros((H, S, 1)), np.zeros((H, S, 0)), bias=bias, **options)


def causal(H: int, T: int, seed: int = 0) -> overt.Attended:
    q, k = 2 * normal(H, T, 6, seed=seed), 2 * normal(H, T, 6, seed=seed + 1)
    return overt.attend(q, k, k[..., :0], mask=overt.causal())


def shown(page: Page, tab: str) -> Page:
    page.click(f"#{tab}-tab")
    settled(page)
    page.evaluate(IDLE)
    return settled(page)


def luminance(rgb: list[float]) -> float:
    """WCAG 2.2."""
    parts = [c / 255 for c in rgb]
    linear = [c / 12.92 if c <= 0.04045 else ((c + 0.055) / 1.055) ** 2.4 for c in parts]
    return 0.2126 * linear[0] + 0.7152 * linear[1] + 0.0722 * linear[2]


def left_out(weights: np.ndarray, keys: list[int]) -> np.ndarray:
    """Weights over the other keys, each query's divided by what remains; NaN where left out."""
    kept = np.delete(np.arange(weights.shape[-1]), keys)
    out = np.full(weights.shape, np.nan)
    rest = weights[..., kept]
    total = rest.sum(axis=-1, keepdims=True)
    out[..., kept] = np.divide(rest, total, out=np.zeros_like(rest), where=total > 0)
    return out


WRITTEN = """() => {
  const own = CanvasRenderingContext2D.prototype.fillText;
  window.written = [];
  CanvasRenderingContext2D.prototype.fillText = function (text, ...place) {
    written.push(text);
    return own.call(this, text, ...place);
  };
}"""


def test_names_that_are_thinned_come_with_their_places(opened: Opened) -> None:
    page = opened(View(causal(1, 2000), tokens=[f"▁w{i % 7}" for i in range(2000)]))
    shown(page, "matrix")
    page.evaluate(WRITTEN)
    page.keyboard.press("ArrowUp")
    settled(page)
    written = page.evaluate("written")
    assert "1,000 ·w6" in written
    assert "1,998 ·w3" in written
    # Where single cells are seen, names are enough.
    page.keyboard.press("z")
    settled(page)
    page.evaluate("written.length = 0")
    page.keyboard.press("ArrowUp")
    settled(page)
    assert {"·w2", "·w3"} <= set(page.evaluate("written"))


def test_positions_are_whole_where_names_have_no_room(opened: Opened) -> None:
    T = 131_072
    x = np.zeros((1, T, 1), np.float32)
    seen = overt.attend(x, x, x, mask=overt.window(8, 0))
    page = opened(View(seen, tokens=[f"▁token{i % 7}" for i in range(T)]), width=390, height=800)
    page.evaluate(WRITTEN)
    page.keyboard.press("ArrowUp")
    settled(page)
    places = [text.strip() for text in page.evaluate("written") if text[0].isdigit()]
    assert "131,070" in places
    assert "120,000" in places
    assert not [text for text in places if re.match(r"[\d,]*…", text)]


def test_few_tokens_come_as_text_with_lines(opened: Opened) -> None:
    seen = causal(2, 10)
    page = opened(View(seen, tokens=WORDS))
    assert page.get_attribute("#text-tab", "aria-selected") == "true"
    assert page.locator("#queries .chip").count() == page.locator("#keys .chip").count() == 10
    # The mark that a token begins a word is a dot, and the token itself the title.
    assert page.locator("#keys .chip").all_inner_texts() == [name.replace("▁", "·") for name in WORDS]
    assert str(page.locator("#keys .chip").nth(1).get_attribute("title")).startswith("▁My · 1 · ")
    # What saves stands beside the tabs, above what changes how things look.
    tabs, tools, png = (page.locator(name).bounding_box() for name in ("#tabs", "#how", "#png"))
    assert tabs is not None
    assert tools is not None
    assert png is not None
    assert png["y"] + png["height"] <= tools["y"]
    assert png["x"] > tabs["x"] + tabs["width"] / 2
    w = seen.weights[0]
    page.click("#queries .chip >> nth=4")
    settled(page)
    assert (state(page, "query"), page.locator("#lines .strong").count()) == (4, int((w[4] >= 0.02).sum()))
    # Under the pointer, a preview that leaves what was chosen.
    page.hover("#keys .chip >> nth=1")
    settled(page)
    assert page.locator("#lines .strong").count() == int((w[1:, 1] >= 0.02).sum())
    assert state(page, "query") == 4
    page.mouse.move(2, 2)
    settled(page)
    assert page.locator("#lines .strong").count() == int((w[4] >= 0.02).sum())
    # A chosen key's lines are those of who looked at it.
    page.click("#keys .chip >> nth=1")
    page.mouse.move(2, 2)
    settled(page)
    assert (state(page, "query"), state(page, "key")) == (4, 1)
    assert page.locator("#lines .strong").count() == int((w[1:, 1] >= 0.02).sum())


def test_sixty_tokens_are_few_and_more_are_running_text(opened: Opened) -> None:
    page = opened(View(causal(1, 60)))
    assert (page.get_attribute("#text-tab", "aria-selected"), page.is_visible("#lines")) == ("true", True)
    page = opened(View(causal(1, 61)))
    assert page.get_attribute("#matrix-tab", "aria-selected") == "true"
    shown(page, "text")
    assert page.is_hidden("#lines")


def test_heads_are_a_labelled_grid(opened: Opened) -> None:
    parts = [Labelled(causal(3, 12, seed=2 * layer), layer=layer, name=name) for name in ("a", "b") for layer in (0, 1)]
    page = opened(View(parts))
    for name in ("a", "b"):
        grid = page.locator(f"[role=grid][aria-label^='{name}:']")
        assert grid.locator("[role=columnheader]").all_inner_texts()[1:] == ["0", "1", "2"]
        assert grid.locator("[role=rowheader]").all_inner_texts() == ["0", "1"]
    boxes = [page.locator(".thumb").nth(i).bounding_box() for i in range(6)]
    # Layers down, heads across.
    assert [round(box["y"] - boxes[0]["y"]) > 5 for box in boxes if box] == [False] * 3 + [True] * 3  # type: ignore[index]
    page.locator(".thumb[aria-pressed=true]").focus()
    page.keyboard.press("ArrowRight")
    page.keyboard.press("ArrowDown")
    page.keyboard.press("Enter")
    page.wait_for_selector("#where:has-text('layer 1 · a · head 1 of 3')")


def test_heads_sort_by_what_they_are_like(opened: Opened) -> None:
    T = 12
    tokens = [*"abcdef", *"abcdef"]
    kinds = np.zeros((4, T, T))
    kinds[0, :, 0] = 1
    kinds[1, np.arange(T), np.maximum(np.arange(T) - 1, 0)] = 1
    kinds[2, np.arange(T), np.where(np.arange(T) < 6, np.arange(T), np.arange(T) - 5)] = 1
    kinds[3] = 1 / (1 + np.arange(T))[:, None]
    seen = given(np.maximum(kinds, 1e-26), mask=overt.causal())
    page = opened(View(seen, tokens=tokens))
    page.evaluate(IDLE)
    like = page.evaluate("[0, 1, 2, 3].map((h) => overt.part.scan(0, h).like)")
    w = seen.weights[...]
    bound = np.log(np.arange(2, T + 1))
    for h in range(4):
        assert like[h]["entropy"] == pytest.approx(np.mean(seen.entropy()[h, 1:] / bound), abs=1e-9)
        assert like[h]["first"] == pytest.approx(w[h, :, 0].mean(), abs=1e-9)
        assert like[h]["previous"] == pytest.approx(w[h, np.arange(1, T), np.arange(T - 1)].mean(), abs=1e-9)
        assert like[h]["induction"] == pytest.approx(w[h, np.arange(6, T), np.arange(1, 7)].mean(), abs=1e-9)
    for order, head in (("first", 0), ("previous", 1), ("induction", 2), ("entropy", 3)):
        page.select_option("#order", order)
        settled(page)
        assert page.locator(".sorted .thumb").first.get_attribute("aria-label") == f"attention, head {head}"
        assert page.locator(".sorted .thumb small").first.inner_text() == f"0.{head} 1.00"
    # Where no token comes twice, nothing followed the same token.
    page = opened(View(causal(2, 5), tokens=list("abcde")))
    page.select_option("#order", "induction")
    page.evaluate(IDLE)
    assert page.inner_text("#overview .hint").endswith(": there is none here")


def test_shades_are_linear_to_one_and_say_so(opened: Opened) -> None:
    page = shown(opened(View(causal(4, 10), tokens=WORDS)), "matrix")
    assert page.locator("#legend .tick").all_inner_texts() == ["0", "0.25", "0.5", "0.75", "1"]
    assert page.inner_text("#legend").startswith("0\n0.25") or "weight, linear" in page.inner_text("#legend")
    assert "masked by causal()" in page.inner_text("#legend")
    assert "0 to 1" in page.inner_text("#overview-scale")
    assert [state(page, f"matrix.scale.{x}") for x in ("low", "high", "faint")] == [0, 1, False]
    page.select_option("#scale", "log")
    settled(page)
    # Decades, from well below an even share of ten keys to 1.
    assert page.locator("#legend .tick").all_inner_texts() == ["10⁻³", "10⁻²", "10⁻¹", "1"]
    levels = page.evaluate("[1, 0.1, 0.01, 0.001, 1e-9, 0].map((w) => overt.matrix.scale.level(w))")
    assert levels == pytest.approx([1, 2 / 3, 1 / 3, 0.03, 0.03, 0])
    assert "0.001 to 1" in page.inner_text("#overview-scale") or "1e-3 to 1" in page.inner_text("#overview-scale")
    # One scale for the matrix and for the pictures of the heads.
    assert state(page, "heads.scale.key") == state(page, "matrix.scale.key")


def test_what_is_faint_is_never_blank(opened: Opened) -> None:
    w = np.full((1, 100, 100), 0.0)
    w[0, :, 0] = 1 - 0.002 * np.linspace(0.2, 1, 100).sum()
    w[0, :, 1:] = 0.002 * np.linspace(0.2, 1, 100)[1:]
    page = opened(View(given(w)))
    page.evaluate(IDLE)
    assert "Most weights here are below 0.04" in page.inner_text("#legend")
    page.evaluate("() => overt.matrix.reveal(50, 50, true)")
    settled(page)
    settled(page)
    assert state(page, "matrix.window")["c0"] > 0
    assert "the shades end at 0.002 here, not at 1" in page.inner_text("#legend")
    darkest = page.evaluate(
        """() => {
          const { dots } = overt.matrix, g = dots.getContext("2d");
          const { data } = g.getImageData(0, 0, dots.width, dots.height);
          const red = data.filter((_, i) => i % 4 === 0);
          return [Math.min(...red), Math.max(...red)];
        }"""
    )
    assert darkest[1] - darkest[0] > 40
    page.click("#fit")
    page.click("text=leave out the first token")
    settled(page)
    assert "renormalised" in page.inner_text("#left-note")


@pytest.mark.parametrize("scheme", ["light", "dark"])
def test_ink_stands_out_and_masks_are_no_zeros(opened: Opened, scheme: str) -> None:
    page = shown(opened(View(causal(2, 10), tokens=WORDS), scheme=scheme), "matrix")

    inks = page.evaluate(
        """() => new Promise((done) => {
          const g = overt.matrix.context, { fillText } = g, { sx, sy } = overt.matrix.view, said = [];
          g.fillText = (text, x, y) => {
            if (/^[01]\\.\\d{3}$/.test(text)) said.push([g.fillStyle, x - sx / 2 + 5, y - sy / 2 + 5]);
            fillText.call(g, text, x, y);
          };
          overt.redraw();
          requestAnimationFrame(() => setTimeout(() => {
            const { width, height } = g.canvas, { data } = g.getImageData(0, 0, width, height);
            window.pixels = { data, width };
            done(said.map(([ink, x, y]) => {
              const at = 4 * (Math.round(y) * width + Math.round(x));
              return [ink, [...data.slice(at, at + 4)]];
            }));
          }));
        })"""
    )
    assert len(inks) > 20
    for ink, cell in inks:
        a, b = sorted((luminance(cell[:3]), luminance([int(ink[i : i + 2], 16) for i in (1, 3, 5)])))
        assert (b + 0.05) / (a + 0.05) >= 4.5, (ink, cell)
    colors = page.evaluate(
        """() => {
          const m = overt.matrix, { left, top } = m.inside, { sx, sy } = m.view, found = [], zero = m.app.theme.ramp;
          for (let y = Math.round(top + sy + 3); y < top + 2 * sy - 3; y++)
            for (let x = Math.round(left + 8 * sx + 3); x < left + 9 * sx - 3; x++) {
              const at = 4 * (y * pixels.width + x);
              found.push(pixels.data[at] + pixels.data[at + 1] + pixels.data[at + 2]);
            }
          return [Math.min(...found), Math.max(...found), zero[0] + zero[1] + zero[2]];
        }"""
    )
    # Two shades of a hatch, of which neither is that of nothing.
    assert colors[1] - colors[0] > 40
    assert min(abs(colors[0] - colors[2]), abs(colors[1] - colors[2])) > 20


def test_received_and_entropy_are_shares_of_what_is_possible(opened: Opened) -> None:
    seen = causal(1, 10)
    page = opened(View(seen, tokens=WORDS))
    page.evaluate(IDLE)
    page.evaluate("() => overt.go(6, 2)")
    settled(page)
    names, values = (page.locator(f"#cell {tag}").all_inner_texts() for tag in ("dt", "dd"))
    facts = dict(zip(names, values, strict=True))
    received, entropy = seen.received()[0, 2], seen.entropy()[0, 6]
    assert facts["of 8 queries that could look"] == f"{100 * received / 8:.1f} %"
    assert facts[f"of at most {math.log(7):.4f}"] == f"{100 * entropy / math.log(7):.1f} %"
    sums = page.evaluate(
        "(() => { const s = overt.look.sums(); return [[...s.receivedShare], [...s.entropyShare]]; })()"
    )
    np.testing.assert_allclose(sums[0], seen.received()[0] / (10 - np.arange(10)), atol=1e-9)
    np.testing.assert_allclose(sums[1][1:], seen.entropy()[0, 1:] / np.log(np.arange(2, 11)), atol=1e-9)
    page = opened(
        View(
            overt.attend(
                np.zeros((1, 4, 1)),
                np.zeros((1, 4, 1)),
                np.zeros((1, 4, 0)),
                mask=np.eye(4, dtype=bool)[::-1] | np.eye(4, dtype=bool),
            )
        )
    )
    page.evaluate(IDLE)
    assert page.evaluate("[...overt.part.scan(0, 0).seers]") == [2, 2, 2, 2]


def test_keys_are_left_out_and_the_rest_renormalised(opened: Opened) -> None:
    seen = causal(3, 10)
    page = opened(View(seen, tokens=WORDS))
    w = seen.weights[...]

    def compare(keys: list[int]) -> None:
        settled(page)
        got = np.reshape(page.evaluate("[...overt.cells(0, 10, 0, 10)]"), (10, 10))
        expected = left_out(w, keys)[0]
        kept = ~np.isnan(expected) & np.tri(10, dtype=bool)
        np.testing.assert_allclose(got[kept], expected[kept], atol=1e-9)
        assert (got[~kept] == -1).all()
        page.evaluate(IDLE)
        np.testing.assert_allclose(
            page.evaluate("[...overt.look.sums().received]"), np.where(kept, expected, 0).sum(axis=0), atol=1e-9
        )

    page.select_option("#left", "first")
    compare([0])
    # What is left out is no choice that a query could have made.
    bound = page.evaluate("[...overt.look.sums().bound]")
    np.testing.assert_allclose(bound, np.log(np.maximum(1, np.arange(10))), atol=1e-12)
    assert page.inner_text("#left-note") == "Left out: “<s>”; every query's other weights are renormalised to 1"
    assert page.locator("#keys .chip").first.get_attribute("title") == "<s> · 0 · left out"
    page.select_option("#left", "special")
    compare([0, 9])
    page.select_option("#left", "")
    page.click("#keys .chip >> nth=2")
    page.click("#keys .chip >> nth=2", modifiers=["Shift"])
    page.click("#keys .chip >> nth=4", modifiers=["Shift"])
    settled(page)
    assert page.inner_text("#column-title") == "Who looked at “·name”, “·John”, together"
    np.testing.assert_allclose(
        np.sort([float(x) for x in page.locator("#column-list .number").all_inner_texts()])[::-1],
        np.sort(w[0][2:, [2, 4]].sum(axis=1))[::-1],
        atol=1e-4,
    )
    page.keyboard.press("x")
    compare([2, 4])
    # Of all heads together, each by itself.
    page.select_option("#how", "mean")
    settled(page)
    expected = left_out(w, [2, 4]).mean(axis=0)
    got = np.reshape(page.evaluate("[...overt.cells(0, 10, 0, 10)]"), (10, 10))
    kept = ~np.isnan(expected) & np.tri(10, dtype=bool)
    np.testing.assert_allclose(got[kept], expected[kept], atol=1e-9)
    page.locator("#how").blur()
    page.keyboard.press("x")
    settled(page)
    assert page.is_hidden("#left-note")


def test_search_cycles_through_hits(opened: Opened) -> None:
    page = opened(View(causal(1, 10), tokens=WORDS))
    page.keyboard.press("/")
    page.keyboard.type("NAME")
    settled(page)
    assert (page.inner_text("#hits"), state(page, "key")) == ("1 of 2", 2)
    page.keyboard.press("Enter")
    assert (page.inner_text("#hits"), state(page, "key")) == ("2 of 2", 7)
    page.keyboard.press("Enter")
    assert (page.inner_text("#hits"), state(page, "key")) == ("1 of 2", 2)
    page.locator("#search").blur()
    page.keyboard.press("Shift+N")
    assert state(page, "key") == 7
    # What runs over several tokens.
    page.fill("#search", "is john")
    assert (page.inner_text("#hits"), state(page, "key")) == ("1 of 1", 3)
    page.fill("#search", "nowhere")
    assert page.inner_text("#hits") == "none"


def test_going_to_a_position_or_a_head(opened: Opened) -> None:
    page = opened(View([Labelled(causal(4, 200, seed=layer), layer=layer) for layer in range(3)]))
    for text, place in (("150, 20", (150, 20)), ("7", (150, 7)), ("q 33", (33, 7)), ("k180", (33, 180))):
        page.keyboard.press("g")
        page.keyboard.type(text)
        page.keyboard.press("Enter")
        assert (state(page, "query"), state(page, "key")) == place
    for text, head in (
        ("L2H3", "layer 2 · attention · head 3"),
        ("h0", "layer 2 · attention · head 0"),
        ("layer 1", "layer 1"),
    ):
        page.fill("#goto", text)
        page.locator("#goto").press("Enter")
        page.wait_for_selector(f"#where:has-text('{head}')")
    for text, wrong in (("L9", "there is no layer 9"), ("999", "keys go from 0 to 199"), ("what", "give a key")):
        page.fill("#goto", text)
        page.locator("#goto").press("Enter")
        assert wrong in page.inner_text("#goto-wrong")
        assert page.get_attribute("#goto", "aria-invalid") == "true"


def test_the_minimap_shows_what_is_received_and_brushes(opened: Opened) -> None:
    page = opened(View(causal(1, 400)))
    page.evaluate(IDLE)
    box = page.locator("#minimap").bounding_box()
    assert box is not None

    def drag(start: float, end: float) -> None:
        page.mouse.move(box["x"] + start * box["width"], box["y"] + 10)
        page.mouse.down()
        page.mouse.move(box["x"] + end * box["width"], box["y"] + 10, steps=5)
        page.mouse.up()
        settled(page)

    drag(0.25, 0.5)
    window = state(page, "matrix.window")
    assert (window["c0"], window["c1"]) == pytest.approx((100, 200), abs=3)
    drag(0.4, 0.6)
    moved = state(page, "matrix.window")
    assert moved["c0"] - window["c0"] == pytest.approx(80, abs=3)
    assert moved["c1"] - moved["c0"] == pytest.approx(window["c1"] - window["c0"], abs=1)
    page.locator("#minimap").focus()
    page.keyboard.press("ArrowLeft")
    assert state(page, "matrix.window")["c0"] < moved["c0"]
    page.mouse.click(box["x"] + 0.9 * box["width"], box["y"] + 10)
    assert state(page, "key") == pytest.approx(360, abs=2)


def written(page: Page) -> str:
    """The address after the page has written it."""
    page.wait_for_timeout(250)
    return page.evaluate("location.hash")


def test_the_address_says_what_is_shown_and_the_back_button_goes_back(opened: Opened) -> None:
    parts = [Labelled(causal(4, 70, seed=layer), [f"t{i}" for i in range(70)], layer=layer) for layer in range(3)]
    page = opened(View(parts))
    written(page)
    length = page.evaluate("history.length")
    page.evaluate("overt.choose(2, 3)")
    page.evaluate("() => overt.go(40, 30)")
    assert {"part=2", "head=3", "query=40", "key=30"} <= set(written(page)[1:].split("&"))
    page.evaluate("() => overt.go(41, 30)")
    written(page)
    page.evaluate("() => { overt.tab('compare'); overt.leave('first'); overt.store.change({ wish: 'log' }); }")
    address = written(page)
    assert page.evaluate("history.length") == length + 2
    page.go_back()
    page.wait_for_selector("#matrix-tab[aria-selected=true]")
    assert (state(page, "head"), state(page, "query"), state(page, "look.left")) == (3, 41, None)
    page.go_back()
    page.wait_for_selector("#where:has-text('layer 0 · attention · head 0')")
    page.go_forward()
    page.go_forward()
    page.wait_for_selector("#compare-tab[aria-selected=true]")
    assert (state(page, "wish"), state(page, "look.left.keys"), written(page)) == ("log", [0], address)
    # The same file with this address shows the same; nonsense is passed over.
    url = page.url
    page.goto("about:blank")
    page.goto(url)
    page.evaluate("overt.ready")
    assert [state(page, x) for x in ("part.index", "head", "query", "key", "wish", "tabName")] == [
        2,
        3,
        41,
        30,
        "log",
        "compare",
    ]
    page.goto("about:blank")
    page.goto(
        url.split("#")[0]
        + "#part=99&head=-4&query=1e9&tab=<b>&left=5,x&marked=NaN,3&how=all&order=me&words=1&%&second=8"
    )
    page.evaluate("overt.ready")
    assert [state(page, x) for x in ("part.index", "head", "tabName", "how", "state.order")] == [
        0,
        0,
        "matrix",
        "one",
        "layer",
    ]


@pytest.fixture
def saved(tmp_path: Path) -> Any:
    def saved(page: Page, kind: str) -> bytes:
        with page.expect_download() as download:
            page.click(f"#{kind}")
        path = tmp_path / f"saved.{kind}"
        download.value.save_as(path)
        return path.read_bytes()

    return saved


def test_what_is_in_view_is_saved(opened: Opened, saved: Any) -> None:
    tokens = ["=1+1", 'a "b"', "c,d", *WORDS[3:]]
    seen = causal(1, 10)
    page = shown(opened(View(seen, tokens=tokens, title="A <b> & C")), "matrix")
    rows = list(csv.DictReader(io.StringIO(saved(page, "csv").decode())))
    assert len(rows) == 100
    for row in rows:
        t, s = int(row["query"]), int(row["key"])
        assert row["weight"] == "" if s > t else float(row["weight"]) == pytest.approx(seen.weights[0, t, s], abs=1e-12)
    # What a spreadsheet would take for a formula is none.
    assert rows[0]["key_name"] == "'=1+1"
    assert rows[1]["key_name"] == 'a "b"'
    drawing = saved(page, "svg").decode()
    assert drawing.count("<rect") == 101
    assert "A &lt;b&gt; &amp; C" in drawing
    assert saved(page, "png")[:8] == b"\x89PNG\r\n\x1a\n"
    # Only what is in view.
    page.evaluate("() => { overt.matrix.view.sx = overt.matrix.view.sy = 88; overt.matrix.settle(); }")
    settled(page)
    box = state(page, "matrix.window")
    assert len(list(csv.DictReader(io.StringIO(saved(page, "csv").decode())))) == (box["r1"] - box["r0"]) * (
        box["c1"] - box["c0"]
    )


def test_a_table_for_those_who_hear_the_page(opened: Opened) -> None:
    seen = causal(1, 10)
    page = shown(opened(View(seen, tokens=WORDS)), "matrix")
    page.locator("#grid").focus()
    page.evaluate("() => overt.go(5, 3)")
    page.keyboard.press("ArrowDown")
    settled(page)
    grid = page.locator("#grid")
    assert (grid.get_attribute("role"), grid.get_attribute("aria-rowcount")) == ("grid", "11")
    here = page.locator(f"#{grid.get_attribute('aria-activedescendant')}")
    assert here.get_attribute(
        "aria-label"
    ) == f"query ·my, key ·is: {seen.weights[0, 6, 3]:.3g}" or "query ·my, key ·is" in str(
        here.get_attribute("aria-label")
    )
    assert here.inner_text() == page.evaluate("(w) => w.toPrecision(3)", seen.weights[0, 6, 3])
    assert page.locator("#table [role=columnheader]").all_inner_texts() == [
        "query",
        *(name.replace("▁", "·") for name in WORDS[:7]),
    ]
    assert page.locator("#table [role=row]").count() == 8
    assert page.locator("#table [role=gridcell]").first.inner_text() == page.evaluate(
        "(w) => w.toPrecision(3)", seen.weights[0, 3, 0]
    )


def test_two_heads_beside_each_other_and_their_difference(opened: Opened, saved: Any) -> None:
    one, two = causal(2, 40), causal(2, 40, seed=5)
    page = opened(View([Labelled(one, layer=0), Labelled(two, layer=1)]))
    page.locator(".thumb >> nth=3").click(modifiers=["Shift"])
    page.wait_for_selector("#second-title:has-text('layer 1 · attention · head 1')")
    assert page.inner_text("#first-title") == "layer 0 · attention · head 0 of 2"
    page.evaluate("() => overt.go(30, 12)")
    settled(page)
    facts = page.locator("#compared dd").all_inner_texts()
    a, b = one.weights[0, 30, 12], two.weights[1, 30, 12]
    np.testing.assert_allclose([float(x) for x in facts], [a, b, b - a], rtol=1e-3)
    # They move together.
    page.evaluate("() => overt.compare.matrices[0].zoom(3)")
    settled(page)
    views = page.evaluate("overt.compare.matrices.slice(0, 2).map(({ view }) => view)")
    assert views[0] == views[1]
    page.select_option("#apart", "difference")
    settled(page)
    assert page.is_hidden("#first-pane")
    page.evaluate("() => overt.compare.matrices[2].fit()")
    settled(page)
    got = np.reshape(page.evaluate("[...overt.compare.matrices[2].look.cells(0, 40, 0, 40)]"), (40, 40))
    seen = np.tri(40, dtype=bool)
    np.testing.assert_allclose((2 * got - 1)[seen], (two.weights[1] - one.weights[0])[seen], atol=1e-9)
    assert (got[~seen] == -1).all()
    assert page.locator("#difference-legend .tick").all_inner_texts() == ["−1", "−0.5", "0", "0.5", "1"]
    # Its drawing says whose difference it is, and says differences.
    drawing = saved(page, "svg").decode()
    assert "layer 1 · attention · head 1 of 2 − layer 0 · attention · head 0 of 2" in drawing
    assert f"30 → 12: {page.evaluate('(w) => w.toPrecision(4)', b - a)}" in drawing
    page.click("#swap")
    page.wait_for_selector("#where:has-text('layer 1 · attention · head 1')")
    assert state(page, "store.state.second") == [0, 0, 0]


def test_text_says_how_to_see_what_is_faint(opened: Opened) -> None:
    w = np.full((1, 100, 100), 0.003)
    w[0, :, 0] = 1 - 99 * 0.003
    page = shown(opened(View(given(w))), "text")
    settled(page)
    assert "Most weights here are below 0.04" in page.inner_text("#text-legend")
    page.click("#text-legend >> text=leave out the first token")
    settled(page)
    assert "renormalised" in page.inner_text("#left-note")
    assert "Most weights" not in page.inner_text("#text-legend")
    # Of few tokens all lines are looked at, not the one query that is chosen.
    w = np.full((1, 11, 11), 1 / 11)
    w[0, 10] = [0.9] + [0.01] * 10
    page = shown(opened(View(given(w))), "text")
    settled(page)
    assert "Most weights" not in page.inner_text("#text-legend")


@pytest.mark.parametrize("scheme", ["light", "dark"])
def test_masked_weights_among_the_steps_are_no_zeros(opened: Opened, scheme: str) -> None:
    q = normal(3, 4)
    page = opened(View(overt.trace(q, q, q, mask=overt.causal()), tokens=["a", "b", "c"]), scheme=scheme)
    assert state(page, "tabName") == "steps"
    found = page.evaluate(
        """() => overt.steps.tables.get("weights").cells.map((cell) => {
          const style = getComputedStyle(cell);
          return [cell.className.includes("masked"), style.backgroundImage, style.color, style.backgroundColor];
        })"""
    )
    hidden = ~np.tri(3, dtype=bool).reshape(-1)
    assert [cell[0] for cell in found] == hidden.tolist()
    assert all(("repeating-linear-gradient" in cell[1]) == masked for cell, masked in zip(found, hidden, strict=True))


@pytest.mark.parametrize("scheme", ["light", "dark"])
def test_names_of_masked_tokens_can_be_read(opened: Opened, scheme: str) -> None:
    page = shown(opened(View(causal(1, 10), tokens=WORDS), scheme=scheme), "text")
    page.evaluate("() => overt.go(2, 0)")
    settled(page)
    assert page.locator("#keys .unseen").count() == 7
    ink, paper, opacity = page.evaluate(
        """() => { const style = getComputedStyle(document.querySelector("#keys .unseen"));
        return [style.color, style.backgroundColor, style.opacity]; }"""
    )
    a, b = sorted(luminance([float(c) for c in re.findall(r"\d+", color)[:3]]) for color in (ink, paper))
    assert (b + 0.05) / (a + 0.05) >= 4.5
    assert opacity == "1"


def test_what_is_faint_in_two_heads_can_be_seen(opened: Opened) -> None:
    # The first token takes most of everything, in both heads; their difference is nowhere more than 0.0009.
    w = np.zeros((2, 60, 60))
    w[0, :, 1:] = 0.3 / 59
    w[1, :, 1:] = 0.3 / 59 + 0.0009 * np.linspace(-1, 1, 59)
    w[:, :, 0] = 1 - w.sum(axis=-1)
    page = shown(opened(View(given(w))), "compare")
    page.select_option("#apart", "apart")
    settled(page)
    # As of one head, it is said how to see it.
    for name in ("first", "second"):
        assert "Most weights here are below 0.04" in page.inner_text(f"#{name}-legend")
    page.select_option("#apart", "difference")
    settled(page)
    assert "the shades end at 0.001 here, not at 1" in page.inner_text("#difference-legend")
    assert page.locator("#difference-legend .tick").all_inner_texts() == ["−0.001", "−0.0005", "0", "0.0005", "0.001"]
    levels = page.evaluate("[0, 0.4995, 0.5, 0.50025, 1].map((w) => overt.compare.matrices[2].scale.level(w))")
    assert levels == pytest.approx([0, 0, 0.5, 0.75, 1])
    page.select_option("#apart", "apart")
    settled(page)
    page.click("#second-legend >> text=logarithmic shades")
    settled(page)
    for name in ("first", "second"):
        assert "weight, logarithmic" in page.inner_text(f"#{name}-legend")
        assert "Most weights" not in page.inner_text(f"#{name}-legend")


def test_what_is_compared_has_one_scale(opened: Opened) -> None:
    # One head is faint alone; beside the other its shades end where those of the other do.
    w = np.full((2, 60, 60), 1 / 60)
    w[1] = np.eye(60)
    page = shown(opened(View(given(w))), "matrix")
    assert "all of this is faint" in page.inner_text("#legend")
    page = shown(page, "compare")
    page.select_option("#apart", "apart")
    settled(page)
    assert (
        page.evaluate("overt.compare.matrices.slice(0, 2).map(({ scale }) => [scale.high, scale.faint])")
        == [[1, False]] * 2
    )
    assert "all of this is faint" not in page.inner_text("#first-legend")


def test_two_models_are_beside_each_other(opened: Opened, tmp_path: Path) -> None:
    # Two files, by the command; one model is deeper than the other.
    one, two = [[causal(2, 10, seed=seed + layer) for layer in range(depth)] for seed, depth in ((0, 2), (7, 3))]
    for name, several in (("small", one), ("large", two)):
        View([Labelled(seen, WORDS, layer=layer) for layer, seen in enumerate(several)]).save(tmp_path / f"{name}.npz")
    paths = [str(tmp_path / f"{name}.npz") for name in ("small", "large")]
    done = CliRunner().invoke(command, ["data", *paths, "-o", str(tmp_path / "both.npz")])
    assert done.exit_code == 0, done.output
    assert "small · layer 1 · attention" in CliRunner().invoke(command, [*paths]).output
    page = opened(View(load(tmp_path / "both.npz"), title="both"))
    assert state(page, "tabName") == "compare"
    assert page.inner_text("#first-title") == "small · layer 0 · attention · head 0 of 2"
    assert page.inner_text("#second-title") == "large · layer 0 · attention · head 0 of 2"
    assert settled(page).locator("#compared dd").count() == 3
    assert page.locator("#overview h2").all_inner_texts() == [
        f"{name} · attention: layers ↓ heads →" for name in ("small", "large")
    ]
    # The same head of the other model, also where the first is another.
    page.locator(".thumb >> nth=3").click()
    page.wait_for_selector("#second-title:has-text('large · layer 1 · attention · head 1')")
    page.select_option("#apart", "difference")
    page.evaluate("() => overt.go(7, 3)")
    settled(page)
    a, b = one[1].weights[1, 7, 3], two[1].weights[1, 7, 3]
    facts = page.locator("#compared dd").all_inner_texts()
    np.testing.assert_allclose([float(x) for x in facts], [a, b, b - a], rtol=1e-3)


def test_two_texts_have_their_own_names(opened: Opened) -> None:
    texts = [View(causal(1, n, seed=n), tokens=[f"{name}{i}" for i in range(n)]) for name, n in (("a", 5), ("b", 8))]
    page = opened(texts[0].beside(texts[1]))
    assert page.inner_text("#second-title") == "attention 2"
    assert page.is_visible("#unlike")
    assert page.evaluate("overt.compare.matrices.slice(0, 2).map(({ look }) => look.columns.name(3))") == ["a3", "b3"]


def test_texts_of_other_sizes_have_no_difference(opened: Opened) -> None:
    page = opened(View([Labelled(causal(1, 9), name="one"), Labelled(causal(1, 12), name="two")]))
    shown(page, "compare")
    assert page.is_visible("#unlike")
    assert page.is_visible("#first-pane")
    assert page.is_visible("#second-pane")
    assert page.locator("#apart").is_disabled()


def test_a_model_of_thirty_layers_is_found_and_compared(opened: Opened) -> None:
    parts = [Labelled(causal(9, 24, seed=layer), layer=layer) for layer in range(30)]
    page = opened(View(parts))
    assert page.locator(".thumb").count() == 270
    page.evaluate(IDLE)
    page.keyboard.press("g")
    page.keyboard.type("L27H8")
    page.keyboard.press("Enter")
    page.wait_for_selector("#where:has-text('layer 27 · attention · head 8')")
    # The chosen head is scrolled to, and every one was drawn.
    panel, thumb = (page.locator(x).bounding_box() for x in ("#overview", ".thumb[aria-pressed=true]"))
    assert panel is not None
    assert thumb is not None
    assert panel["y"] <= thumb["y"] <= panel["y"] + panel["height"] - thumb["height"]
    assert page.evaluate("[...overt.heads.thumbs.values()].every(({ dots }) => dots !== null)")
    assert thumb["width"] >= 17


def test_a_phone_shows_the_card_as_a_sheet_and_reaches_every_head(opened: Opened) -> None:
    parts = [Labelled(causal(9, 10, seed=layer), WORDS, layer=layer) for layer in range(12)]
    page = opened(View(parts), width=390, height=800)
    sheet = page.locator("#card").bounding_box()
    assert sheet is not None
    assert (round(sheet["y"] + sheet["height"]), round(sheet["width"])) == (800, 390)
    assert sheet["height"] < 80
    page.click("#sheet")
    sheet = page.locator("#card").bounding_box()
    assert sheet is not None
    assert sheet["height"] > 300
    assert page.get_attribute("#sheet", "aria-expanded") == "true"
    page.click("#sheet")
    page.locator(".thumb").last.click()
    page.wait_for_selector("#where:has-text('layer 11 · attention · head 8')")
    assert page.evaluate("document.documentElement.scrollWidth") <= 390


def test_an_arrow_key_waits_for_no_long_column(opened: Opened) -> None:
    # Wide, so that a column takes long, and all columns do not.
    T = 1200
    q, k = (normal(1, T, 960, seed=i, dtype=np.float32) for i in (0, 1))
    seen = overt.attend(q, k, k[..., :0], mask=overt.causal())
    page = opened(View(seen))
    page.evaluate(IDLE)
    page.evaluate("() => overt.go(1000, 600)")
    page.evaluate(IDLE)
    before = page.locator("#column-list .number").all_inner_texts()
    cells = page.evaluate(
        """() => new Promise((done) => {
          const { part } = overt, { tile } = part;
          let cells = 0;
          part.tile = (...box) => {
            cells += (box[3] - box[2]) * (box[5] - box[4]);
            return tile.apply(part, box);
          };
          document.body.dispatchEvent(new KeyboardEvent("keydown", { key: "ArrowRight", bubbles: true }));
          // The first frame after the key, and what is worked out for it.
          requestAnimationFrame(() => {
            part.tile = tile;
            done(cells);
          });
        })"""
    )
    # Not all cells of a column at once.
    assert cells < T
    page.evaluate(IDLE)
    settled(page)
    assert state(page, "key") == 601
    after = [float(x) for x in page.locator("#column-list .number").all_inner_texts()]
    assert after != [float(x) for x in before]
    column = seen.weights[0, :, 601]
    np.testing.assert_allclose(after, np.sort(column)[::-1][:8], atol=1e-4)


def test_forced_colours_keep_shades_and_mark_what_is_chosen(opened: Opened) -> None:
    page = opened(View(causal(2, 10), tokens=WORDS))
    page.emulate_media(forced_colors="active")
    settled(page)
    chip = page.locator("#keys .chip.chosen").first
    assert chip.evaluate("(x) => getComputedStyle(x).forcedColorAdjust") == "none"
    assert chip.evaluate("(x) => getComputedStyle(x).outlineStyle") == "solid"
    ink = page.evaluate("getComputedStyle(document.body).color")
    assert state(page, "theme.ink") == ink
