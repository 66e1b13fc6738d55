"""Attention in the terminal, as figures, in files and in a notebook; and what is said when it cannot be shown."""

from __future__ import annotations

import csv
import json
import os
import re
import subprocess
import sys
from base64 import b64decode
from io import StringIO
from pathlib import Path
from typing import Any

import ml_dtypes
import numpy as np
import pytest
import torch
from click.testing import CliRunner
from matplotlib.figure import Figure
from rich.cells import cell_len
from rich.console import Console
from safetensors.numpy import save_file

import overt
from overt import kernels
from overt.cli import main
from overt.cli.printed import in_json
from overt.errors import ArgumentError, DtypeError, FileError, OvertError, ShapeError
from overt.views import View, stored, terminal
from overt.views import paper as papers
from overt.views.alignment import legend, table
from overt.views.colors import DARK, STOPS, Scale, shades
from overt.views.files import load
from overt.views.labels import Labelled, readable
from overt.views.lessons import LESSONS
from overt.views.notebook import picture
from overt.views.paper import Paper

WORDS = ["My", "name", "is", "John"]


def normal(*shape: int, seed: int = 0, dtype: Any = np.float64) -> np.ndarray:
    return np.random.default_rng([seed, *shape]).normal(size=shape).astype(dtype)


Q, K, V = normal(2, 4, 8), normal(2, 4, 8, seed=1), normal(2, 4, 3, seed=2)


def printed(view: View, width: int = 100, colors: bool = False, **options: Any) -> str:
    console = Console(
        file=StringIO(),
        width=width,
        highlight=False,
        color_system="truecolor" if colors else None,
        force_terminal=colors,
    )
    terminal.show(view, console=console, **options)
    return console.file.getvalue()  # type: ignore[attr-defined]


# The terminal.


def test_a_small_head_is_a_table_of_its_weights() -> None:
    seen = overt.attend(Q, K, V, mask=overt.causal())
    text = printed(View(seen, tokens=WORDS), head=1)
    w = seen.weights[1]
    lines = text.splitlines()
    assert lines[0] == "head 1 of 2 · 4 queries × 4 keys"
    assert lines[1].split() == [*WORDS, "entropy"]
    for t in range(4):
        cells = [f"{x:.3f}" for x in w[t, : t + 1]] + ["·"] * (3 - t)
        assert lines[2 + t].split() == [WORDS[t], *cells, f"{seen.entropy()[1, t]:.3f}"]
    # The first query sees one key, which is no news.
    best = max((w[t, s], t, s) for t in range(1, 4) for s in range(4))
    first = lines[lines.index("strongest pairs") + 1]
    assert first == f"  {best[0]:.4f}  head 1  {WORDS[best[1]]} → {WORDS[best[2]]}  ({best[1]} → {best[2]})"


def test_all_heads_are_small_pictures() -> None:
    seen = overt.attend(Q, K, V)
    text = printed(View(seen))
    assert f"head 0, {seen.entropy()[0].mean():.2f} nats" in text
    assert f"head 1, {seen.entropy()[1].mean():.2f} nats" in text
    assert "strongest pairs" in text


@pytest.mark.parametrize("width", [40, 80, 200])
def test_nothing_is_wider_than_the_window(width: int) -> None:
    for view in (
        View(
            overt.attend(normal(3, 300, 4), normal(3, 500, 4), normal(3, 500, 1)),
            tokens=["語" * 9] * 500,
            queries=["q" * 50] * 300,
        ),
        View(overt.trace(normal(1, 9, 8), normal(1, 9, 8), normal(1, 9, 8)), tokens=["a long name of a token"] * 9),
        *(make() for make in LESSONS.values()),
    ):
        for head in (None, 0):
            assert max(map(cell_len, printed(view, width, head=head).splitlines())) <= max(width, 40)


def test_wide_characters_stay_in_their_columns() -> None:
    seen = overt.attend(Q, K, V)
    lines = printed(View(seen, tokens=["我的", "name", "👩🏽", "é"]), head=0).splitlines()[1:6]
    # Each number ends in the column where the name of its key ends.
    ends = [cell_len(lines[0][: lines[0].index(name) + len(name)]) for name in ("我的", "name", "👩🏽", "é", "entropy")]
    for line in lines[1:]:
        places, at = [], 0
        for number in line.split()[1:]:
            at = line.index(number, at) + len(number)
            places.append(cell_len(line[:at]))
        assert places[:4] == ends[:4]


def colored(*, dark: bool = False, width: int = 80) -> Paper:
    return Paper(Console(file=StringIO(), width=width, color_system="truecolor", force_terminal=True), dark)


@pytest.mark.parametrize("dark", [False, True])
def test_half_blocks_are_coloured_by_the_largest_weights(dark: bool) -> None:
    q = normal(1, 100, 8)
    part = Labelled(overt.attend(q, q, q, mask=overt.causal()))
    level, visible = Scale.of(1, 100).level(part.seen.map(56, 70)[0]), part.visible_bins(0, 0, 56, 70)
    paper = colored(dark=dark)
    lines = terminal._picture(level, visible, paper)
    expected = np.where(visible[..., None], shades(level, DARK if dark else STOPS), paper.blank)
    assert len(lines) == 28
    for i, line in enumerate(lines):
        # What may not be seen is hatched.
        assert line.plain == "".join("▀" if seen else "╱" for seen in visible[2 * i : 2 * i + 2].any(axis=0))
        for j, span in enumerate(line.spans):
            assert span.style.bgcolor.triplet == tuple(expected[2 * i + 1, j])  # type: ignore[union-attr]
            if line.plain[j] == "▀":
                assert span.style.color.triplet == tuple(expected[2 * i, j])  # type: ignore[union-attr]
    # A last single row has nothing below it, not even paper.
    (*_, last) = terminal._picture(level[:3], visible[:3], paper)
    assert {span.style.bgcolor for span in last.spans} == {None}  # type: ignore[union-attr]


MASKINGS: dict[str, Any] = {
    "none": None,
    "causal": overt.causal(),
    "window": overt.window(5, 2) & overt.padding(31),
    "gaps": overt.keep(normal(2, 23, 37) > 1),
    "documents": overt.documents(np.arange(23) % 3, np.arange(37) // 9),
    "nothing": overt.padding(0),
}


@pytest.mark.parametrize("name", MASKINGS)
def test_bins_are_masked_where_all_their_cells_are(name: str) -> None:
    seen = overt.attend(normal(2, 23, 4), normal(2, 37, 4), normal(2, 37, 1), mask=MASKINGS[name])
    part = Labelled(seen)
    for head in range(2):
        cells = part.visible(0, head)
        for rows, columns in ((23, 37), (5, 8), (1, 1)):
            found = part.visible_bins(0, head, rows, columns)
            expected = [
                [
                    cells[
                        i * 23 // rows : -(-(i + 1) * 23 // rows), j * 37 // columns : -(-(j + 1) * 37 // columns)
                    ].any()
                    for j in range(columns)
                ]
                for i in range(rows)
            ]
            np.testing.assert_array_equal(found, expected)


def test_zero_and_masked_are_told_apart_and_the_scale_is_said() -> None:
    # The second query gives the first key nothing, and may not see the third.
    bias, zeros = np.zeros((3, 3)), np.zeros((1, 3, 3))
    bias[1, 0] = -1000
    seen = overt.attend(zeros, zeros, zeros, bias=bias, mask=overt.causal())
    rows = printed(View(seen, tokens=["a", "b" * 30, "c"]), width=40, head=0).splitlines()
    assert rows[2][15:].rstrip() == " " * 6 + "██████  ·"
    text = "\n".join(rows)
    assert "weight 0 ░▒▓█ 1, linear   · masked" in text
    assert "queries ↓ keys →" in text
    free = printed(View(overt.attend(Q, K, V)), width=40)
    assert "masked" not in free
    x = 6 * normal(1, 200, 8)
    long = printed(View(overt.attend(x, x, x)), width=60)
    assert ", linear" in long
    assert "each cell the largest of 8 × 4" in long


def test_small_heads_have_wide_cells() -> None:
    seen = overt.attend(normal(2, 12, 8), normal(2, 12, 8), normal(2, 12, 1), mask=overt.causal())
    lines = printed(View(seen), width=80).splitlines()
    # Two heads in eighty columns: three columns for each of twelve keys, and a line for each query.
    assert lines[2].count("·") == 22
    assert len(lines[2].rstrip()) <= 80
    names = [f"token{i}" for i in range(12)]
    lines = printed(View(seen, tokens=names), width=60, head=0).splitlines()
    assert [line.split()[0] for line in lines[1:13]] == names
    ends = {cell_len(line.rstrip()) for line in lines[1:13]}
    assert max(ends) <= 60
    assert lines[13].split()[0] == "token0"


def test_all_heads_are_on_one_scale() -> None:
    # The one looks at one key, the other at all alike.
    q = np.stack([9 * np.eye(4, 8), np.zeros((4, 8))])
    seen = overt.attend(q, 9 * np.stack([np.eye(4, 8)] * 2), np.zeros((2, 4, 1)))
    lines = printed(View(seen), width=80).splitlines()
    assert lines[2].split() == ["████", "░░░░░░░░░░░░░░░░"]


def test_a_scale_is_linear_from_0_to_1_unless_asked() -> None:
    weights = np.array([0, 1e-9, 0.02, 0.5, 1])
    np.testing.assert_array_equal(Scale.of(0.7, 1000).level(weights), weights)
    # Where all is faint it ends at a round number above, which is said.
    assert [Scale.of(x, 1000).high for x in (0, 0.04, 0.039, 0.02, 0.011, 0.01, 0.009)] == [
        1,
        1,
        0.05,
        0.02,
        0.02,
        0.01,
        0.01,
    ]
    assert Scale.of(0.011, 9).name == "linear, all of it faint: the shades end at 0.02, not at 1"
    # Decades begin well below an even share, and the faintest weight differs from none.
    scale = Scale.of(0.7, 1000, log=True)
    assert (scale.low, scale.high) == (1e-5, 1)
    np.testing.assert_allclose(scale.level(np.array([0, 1e-9, 1e-3, 0.1, 1])), [0, 0.03, 0.4, 0.8, 1])


def test_the_terminal_says_how_to_see_what_is_faint() -> None:
    # One query has chosen, and the others have not.
    zeros, bias = np.zeros((1, 200, 4)), np.zeros((200, 200))
    bias[0, 0] = 100
    view, hint = (
        View(overt.attend(zeros, zeros, zeros, bias=bias)),
        "most weights here are below 0.04: log=True (--log) shows them",
    )
    text = printed(view, width=80)
    assert "weight 0 ░▒▓█ 1, linear\n" + hint in text
    text = printed(view, width=80, log=True)
    assert "weight 1e-05 ░▒▓█ 1, logarithmic\n" in text
    assert hint not in text
    assert hint not in printed(View(overt.attend(Q, K, V)), width=80)


def test_layers_that_are_printed_together_are_on_one_scale() -> None:
    faint, clear = np.zeros((1, 100, 4)), 9 * np.eye(100, 100)[None]
    parts = [Labelled(overt.attend(x, x, x), layer=i) for i, x in enumerate((faint, clear))]
    assert printed(View(parts), width=60).count("weight 0 ░▒▓█ 1, linear") == 2
    # Alone, its faint weights would be seen by the end of the scale.
    alone = printed(View(parts).only(layer=0), width=100)
    assert "weight 0 ░▒▓█ 0.01, linear, all of it faint: the shades end at 0.01, not at 1" in alone
    # So it is for a single query.
    text = printed(View(parts), width=100, query=3)
    assert text.count("weight 0 ░▒▓█ 1, linear") == 2
    assert "  0.0100  " + " " * 20 in text


@pytest.mark.parametrize(("said", "dark"), [("15;0", True), ("0;15", False), ("15;default;8", True), ("0;7", False)])
def test_the_background_is_what_the_terminal_says(monkeypatch: pytest.MonkeyPatch, said: str, dark: bool) -> None:
    monkeypatch.setenv("COLORFGBG", said)
    paper = papers.of(colored().console)
    assert paper.dark is dark
    level = np.linspace(0, 1, 101)
    lightness = paper.shades(level).astype(float) @ [0.2126, 0.7152, 0.0722]
    assert (np.diff(lightness) > 0).all() if dark else (np.diff(lightness) < 0).all()
    # A file is no terminal, whatever the terminal is like.
    assert not papers.of(Console(file=StringIO(), width=80)).dark


ASKING = """
import fcntl, os, termios
os.setsid()
fcntl.ioctl(0, termios.TIOCSCTTY, 0)
from rich.console import Console
from overt.views import paper
print("dark" if paper.of(Console()).dark else "light")
"""


@pytest.mark.parametrize(
    ("answer", "expected"),
    [
        (b"\x1b]11;rgb:1111/1414/1818\x1b\\\x1b[?62;22c", "dark"),
        (b"\x1b]11;rgb:ffff/ffff/f0f0\x07\x1b[?1;2c", "light"),
        # One that knows no such question answers the next, and one that knows none is not waited for.
        (b"\x1b[?6c", "light"),
        (b"", "light"),
    ],
)
def test_a_terminal_is_asked_for_its_background(monkeypatch: pytest.MonkeyPatch, answer: bytes, expected: str) -> None:
    pty = pytest.importorskip("pty")
    for name in ("COLORFGBG", "NO_COLOR"):
        monkeypatch.delenv(name, raising=False)
    monkeypatch.setenv("TERM", "xterm-256color")
    terminal, own = pty.openpty()
    with subprocess.Popen([sys.executable, "-c", ASKING], stdin=own, stdout=own) as child:
        os.close(own)
        heard = b""
        while True:
            try:
                heard += os.read(terminal, 1024)
            except OSError:
                break
            if heard.endswith(b"\x1b]11;?\x1b\\\x1b[c"):
                os.write(terminal, answer)
    os.close(terminal)
    assert child.returncode == 0
    assert b"\x1b]11;?" in heard
    # Nothing that the terminal said is echoed.
    assert heard.split(b"\x1b[c")[-1].split() == [expected.encode()]


def test_colours_only_where_they_are_wanted(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    view = View(overt.attend(normal(1, 100, 8), normal(1, 100, 8), normal(1, 100, 8)))
    assert "\x1b[38;2" in printed(view, colors=True)
    view.print()
    assert "\x1b" not in capsys.readouterr().out
    assert "░" in str(view)
    assert "\x1b" not in str(view)
    monkeypatch.setenv("NO_COLOR", "1")
    console = Console(file=StringIO(), width=80, force_terminal=True)
    terminal.show(view, console=console)
    assert "38;2" not in console.file.getvalue()  # type: ignore[attr-defined]
    assert "░" in console.file.getvalue()  # type: ignore[attr-defined]


def test_a_trace_is_shown_step_by_step() -> None:
    steps = overt.trace(Q[:1], K[:1], V[:1], mask=overt.causal())
    text = printed(View(steps, tokens=WORDS))
    at = [text.index(f"{i:2} {name} = ") for i, name in enumerate(steps.names, 1)]
    assert at == sorted(at)
    before, after = (f"{steps.step(name).variance:.4g}" for name in ("scores", "scaled"))
    assert f"variance {before} → {after}: the scale 1/√8 divides it by 8" in text
    for x in steps["output"][0].reshape(-1):
        assert f"{x:.4f}" in text
    assert "−∞" in text
    # Facts that have no room beside a formula stand whole in the line below it.
    narrow = printed(View(steps, tokens=WORDS), width=60).splitlines()
    below = narrow.index(" 7 weights = softmax(masked) = exp(masked − lse)") + 1
    assert re.fullmatch(r"   T 4 × S 4   mean 0.25, variance \S+", narrow[below])
    large = printed(View(overt.trace(normal(1, 90, 4), normal(1, 90, 4), normal(1, 90, 4))))
    assert "8,100 finite numbers, " in large
    assert len(large.splitlines()) < 250


def test_steps_say_the_numbers_of_their_head(capsys: pytest.CaptureFixture[str], tmp_path: Path) -> None:
    q, k, v = (normal(2, 3, n, 8, seed=n) * np.array([1, 2, 3])[:, None, None] for n in (40, 41, 42))
    k, v = k[:, :, :40], v[:, :, :40]
    for row, head in np.ndindex(2, 3):
        steps = overt.trace(*(x[row, head] for x in (q, k, v)), mask=overt.causal())
        View(overt.trace(q, k, v, mask=overt.causal())).print(row=row, head=head)
        out = capsys.readouterr().out
        for step in steps:
            assert f"mean {step.mean:.4g}, variance {step.variance:.4g}" in out
        before, after = (f"{steps.step(name).variance:.4g}" for name in ("scores", "scaled"))
        assert f"variance {before} → {after}: the scale 1/√8 divides it by 8" in out


def test_show_prints_and_gives_the_view(capsys: pytest.CaptureFixture[str]) -> None:
    seen = overt.attend(Q, K, V)
    view = overt.show(seen, tokens=WORDS, title="<b>")
    assert "strongest pairs" in capsys.readouterr().out
    assert isinstance(view, View)
    assert repr(view) == "View('<b>', weights (2, 4, 4)): .figure(), .page(path), .save(path), .csv(path)"
    overt.show([Labelled(seen, WORDS, name="self", layer=3), Labelled(seen)])
    assert "layer 3 · self · 2 heads" in capsys.readouterr().out


def test_some_layers_and_names_alone() -> None:
    seen = overt.attend(Q, K, V)
    view = View([Labelled(seen, layer=layer, name=name) for layer in range(3) for name in ("encoder", "cross")])
    assert [(part.layer, part.name) for part in view.only(layer=1).parts] == [(1, "encoder"), (1, "cross")]
    assert [part.layer for part in view.only(name="cross").parts] == [0, 1, 2]
    with pytest.raises(ArgumentError, match=r"the layers are \[0, 1, 2\], the names \['cross', 'encoder'\]"):
        view.only(layer=3)


def test_one_query() -> None:
    seen = overt.attend(Q, K, V, mask=overt.causal())
    lines = printed(View(seen, tokens=WORDS), query=2, head=1).splitlines()
    w = seen.weights[1, 2]
    assert lines[1] == f"head 1  is (2), entropy {seen.entropy()[1, 2]:.3f} nats"
    assert lines[2].split() == WORDS
    order = np.argsort(-w)[:3]
    # Bars are as long as shades are dark; the key behind the mask has none.
    assert [line.split()[0] for line in lines[3:6]] == [f"{w[s]:.4f}" for s in order]
    assert [line.count("█") for line in lines[3:6]] == [round(20 * w[s]) for s in order]
    assert [line.split()[-2:] for line in lines[3:6]] == [[WORDS[s], f"({s})"] for s in order]
    assert "John" not in "".join(lines[3:])
    assert "head 0" in printed(View(seen), query=0)
    with pytest.raises(ArgumentError, match="no query 4: give 0…3"):
        printed(View(seen), query=4)


def test_rows_of_a_batch() -> None:
    seen = overt.attend(
        normal(3, 1, 4, 8), normal(3, 1, 4, 8), normal(3, 1, 4, 8), mask=overt.padding(np.array([4, 0, 2]))
    )
    assert "row 2 of 3" in printed(View(seen), row=2)
    assert f"{seen.weights[2, 0, 3, 1]:.3f}" in printed(View(seen), row=2)
    assert "no query may see any key" in printed(View(seen), row=1)
    with pytest.raises(ArgumentError, match="no row 3: give 0…2"):
        printed(View(seen), row=3)
    for wrong in ("0", 1.0, True, (0,)):
        with pytest.raises(ArgumentError, match="head must be a whole number"):
            overt.show(overt.attend(Q, K, V), head=wrong)  # type: ignore[arg-type]
    with pytest.raises(ArgumentError, match="no head 1: give 0…0"):
        printed(View(seen), head=1)


@pytest.mark.parametrize("dtype", [torch.bfloat16, torch.float16, torch.float32])
def test_tensors_are_shown_as_arrays_are(dtype: torch.dtype) -> None:
    tensors = [torch.from_numpy(x).to(dtype).requires_grad_() for x in (Q, K, V)]
    arrays = [x.detach().float().numpy() for x in tensors]
    bias = normal(2, 1, 4, dtype=np.float32)
    for how in (overt.attend, overt.trace):
        text = printed(View(how(*tensors, bias=torch.from_numpy(bias)), tokens=WORDS), head=0)
        if how is overt.attend:
            assert text == printed(View(how(*arrays, bias=bias), tokens=WORDS), head=0)


def test_scores_with_tensors_of_parameters(tmp_path: Path) -> None:
    def parameter(*shape: int) -> torch.Tensor:
        return torch.from_numpy(normal(*shape)).requires_grad_()

    q, k, v = (torch.from_numpy(x) for x in (Q, K, V))
    for score in (overt.bilinear(parameter(8, 8)), overt.additive(parameter(5, 8), parameter(5, 8), parameter(5))):
        seen = overt.attend(q, k, v, score=score, bias=overt.alibi(parameter(2)), sinks=parameter(2))
        view = View(seen, tokens=WORDS)
        view.page(tmp_path / "x.html")
        (again,) = load(view.save(tmp_path / "x.npz"))
        np.testing.assert_allclose(again.seen.weights[...], seen.weights[...], rtol=1e-9)


@pytest.mark.parametrize("hostile", ["\ud800", "\x1b[31m", "<b>", "a\nb", "$x^{", "\0"])
def test_titles_and_names_of_attentions_do_no_harm(tmp_path: Path, hostile: str) -> None:
    view = View(Labelled(overt.attend(Q, K, V), name=hostile), title=hostile)
    text = printed(view)
    assert "\x1b" not in text
    text.encode()
    view.page(tmp_path / "x.html")
    view.csv(tmp_path / "x.csv")
    view._repr_mimebundle_()["text/html"].encode()
    assert json.loads(in_json(view.as_dict()).encode())["title"] == hostile
    view.figure().canvas.draw()
    assert load(view.save(tmp_path / "x.npz"))[0].name in (hostile, "")


# Names.


@pytest.mark.parametrize(
    ("token", "text"),
    [
        ("word", "word"),
        (" a", " a"),
        ("a\nb", "a⏎b"),
        ("\t", "⇥"),
        ("\0", "\\x00"),
        ("\x1b[31m", "\\x1b[31m"),
        ("", "∅"),
        ("  ", "␣␣"),
        ("a\u202eb", "a\\u202eb"),
        ("\u200b", "\\u200b"),
        ("👩\u200d👧", "👩\u200d👧"),
        ("עברית", "עברית"),
        ("\ud800", "\\ud800"),
        ("\u2028", "\\u2028"),
        ("x" * 10_001, "x" * 10_000 + "…"),
    ],
)
def test_names_are_readable(token: str, text: str) -> None:
    assert readable(token) == text


def test_queries_are_the_last_tokens() -> None:
    part = Labelled(overt.attend(Q[:, 2:], K, V), WORDS)
    assert part.rows == ("is", "John")
    assert Labelled(overt.attend(Q, K[:, 2:], V[:, 2:]), ["a", "b"]).rows is None
    assert Labelled(overt.attend(Q, K[:, 2:], V[:, 2:]), ["a", "b"], WORDS).query(3) == "John"


# What cannot be shown.


def nan(x: np.ndarray) -> np.ndarray:
    x = x.copy()
    x[1, 2, 3] = np.nan
    return x


@pytest.mark.parametrize(
    ("make", "error", "message"),
    [
        (lambda: overt.attend(nan(Q), K, V), ArgumentError, r"q holds nan at \(0, 1, 2, 3\)"),
        (lambda: overt.attend(Q, nan(K), V), ArgumentError, r"k holds nan"),
        (lambda: overt.attend(Q, K, V, bias=nan(normal(2, 4, 4))), ArgumentError, r"bias holds nan"),
        (lambda: overt.attend(Q * 1e200, K * 1e200, V), ArgumentError, "the scores overflow"),
        (lambda: overt.attend(Q[:, :0], K, V), ArgumentError, r"nothing to show: the weights have shape \(2, 0, 4\)"),
        (lambda: overt.attend(Q, K[:, :0], V[:, :0]), ArgumentError, r"nothing to show"),
        (lambda: "text", DtypeError, "what overt.attend, overt.trace or overt.record gives.*not str"),
        (list, ArgumentError, "empty list"),
        (lambda: [1], DtypeError, "not list"),
        (lambda: Q, ArgumentError, "weights must be finite and not negative"),
    ],
)
def test_what_cannot_be_shown(make: Any, error: type, message: str) -> None:
    with pytest.raises(error, match=message):
        overt.show(make())


def test_a_masked_nan_is_no_hindrance(tmp_path: Path) -> None:
    k = K.copy()
    k[:, 3] = np.nan
    view = View(overt.attend(Q, k, V, mask=overt.padding(3)))
    assert "nan" not in str(view)
    view.page(tmp_path / "page.html")


@pytest.mark.parametrize(
    ("names", "error", "message"),
    [
        ({"tokens": WORDS[:3]}, ShapeError, "3 tokens for 4 keys"),
        ({"tokens": []}, ShapeError, "0 tokens for 4 keys"),
        ({"tokens": WORDS, "queries": ["a"] * 5}, ShapeError, "5 queries for 4 queries"),
        ({"tokens": "word"}, DtypeError, "list of strings"),
        ({"tokens": 4}, DtypeError, "list of strings"),
        ({"title": 4}, DtypeError, "title must be text"),
        ({"tokens": [1, 2, 3, 4]}, DtypeError, "list of strings"),
    ],
)
def test_wrong_names(names: dict[str, Any], error: type, message: str) -> None:
    with pytest.raises(error, match=message):
        overt.show(overt.attend(Q, K, V), **names)


def test_names_of_labelled_attention_are_its_own() -> None:
    part = Labelled(overt.attend(Q, K, V))
    with pytest.raises(ArgumentError, match="has its tokens already"):
        overt.show(part, tokens=WORDS)
    with pytest.raises(ArgumentError, match="prompt is 5"):
        Labelled(part.seen, prompt=5)
    with pytest.raises(DtypeError, match="not ndarray"):
        Labelled(Q)


@pytest.mark.parametrize("write", ["page", "save", "csv"])
def test_paths_that_cannot_be_written(tmp_path: Path, write: str) -> None:
    view = View(overt.attend(Q, K, V))
    (tmp_path / "folder").mkdir()
    for path in (tmp_path / "none" / "x", tmp_path / "folder"):
        with pytest.raises(FileError, match="cannot write"):
            getattr(view, write)(path)
    with pytest.raises(DtypeError, match="path must be the name of a file, a str or a Path, not 5"):
        getattr(view, write)(5)
    assert [x.name for x in tmp_path.iterdir()] == ["folder"]


def test_a_failure_leaves_the_old_file(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    path = tmp_path / "page.html"
    path.write_text("old")
    view = View(overt.attend(Q, K, V))

    def broken(*_: Any, **__: Any) -> Any:
        yield "<html>"
        raise MemoryError

    monkeypatch.setattr("overt.views.page.pieces", broken)
    with pytest.raises(MemoryError):
        view.page(path)
    assert path.read_text() == "old"
    assert list(tmp_path.iterdir()) == [path]


def test_what_a_page_cannot_hold(tmp_path: Path) -> None:
    view = View(overt.attend(Q * 1e6, K, V))
    with pytest.raises(ArgumentError, match="float32"):
        view.page(tmp_path / "x", precision="float16")
    with pytest.raises(ArgumentError, match="precision must be one of"):
        view.page(tmp_path / "x", precision="float8")

    class Odd(overt.scores.Score):
        def factors(self, xp: Any, q: Any, k: Any) -> Any:
            return q, k, 1.0

        def steps(self, xp: Any, q: Any, k: Any) -> Any:
            yield "scores", "q kᵀ", "T S", xp.matmul(q, k.mT)

    with pytest.raises(ArgumentError, match="cannot hold the score Odd"):
        View(overt.attend(Q, K, V, score=Odd())).page(tmp_path / "x")


# Files.


SAVED: dict[str, dict[str, Any]] = {
    "plain": {},
    "mask": {"mask": overt.causal() & overt.padding(3)},
    "alibi": {"bias": overt.alibi(np.array([0.5, 0.25])), "softcap": 3.0},
    "everything": {"mask": normal(4, 4) > -0.5, "bias": normal(2, 1, 4), "sinks": np.array([0.5, -1]), "softcap": 2.0},
    "packed": {
        "mask": overt.packed([0, 1, 4], [0, 2, 4]) & overt.causal(),
        "bias": overt.alibi(np.array([0.5, 0.25])) + normal(2, 1, 4),
    },
    "scale": {"score": overt.scaled_dot(0.7)},
    "dropout": {"dropout": overt.dropout(0.5, 2**64 - 3), "mask": overt.causal()},
    "packed dropout": {"dropout": overt.dropout(0.5, 7), "mask": overt.packed([0, 1, 4], [0, 2, 4]) & overt.causal()},
    "cosine": {"score": overt.cosine(2.0)},
    "bilinear": {"score": overt.bilinear(normal(8, 8))},
    "additive": {"score": overt.additive(normal(5, 8), normal(5, 8, seed=1), normal(5), normal(5, seed=2))},
}


@pytest.mark.parametrize("name", SAVED)
def test_saved_and_loaded_is_the_same(tmp_path: Path, name: str) -> None:
    seen = overt.attend(Q, K, V, **SAVED[name])
    view = View(Labelled(seen, ["a\0b", "é", "", "語"], name="self", layer=2, prompt=1))
    (again,) = load(view.save(tmp_path / "x.npz"))
    np.testing.assert_allclose(again.seen.weights[...], seen.weights[...], rtol=1e-12)
    np.testing.assert_allclose(again.seen.output, seen.output, rtol=1e-12)
    assert (again.name, again.layer, again.prompt) == ("self", 2, 1)
    assert again.keys == ("a\\x00b", "é", "∅", "語")
    found = np.load(tmp_path / "x.npz")
    np.testing.assert_array_equal(found["received"], seen.received())
    np.testing.assert_array_equal(found["entropy"], seen.entropy())


LARGE = 17_000
MASKS: dict[str, Any] = {
    "causal": overt.causal(),
    "window": overt.window(1, 0) & overt.padding([4, 2]),
    "scattered": overt.keep(normal(2, 2, 4, 4) > 0),
    "by head": overt.where(lambda b, h, t, s: (t + s + h) % 3 > 0),
    "one for all": overt.keep(normal(4, 4) > 0) & overt.causal(),
    "documents": overt.documents(np.array([0, 1, 0, 1])),
    "both ids": overt.documents(np.array([0, 1, 2, 1]), np.array([1, 1, 0, 3])),
    "packed": overt.packed([0, 1, 4], [0, 2, 4]) & overt.causal(),
    "prefix": ~overt.prefix([2, 1]),
}
BIASES: dict[str, Any] = {
    "alibi": overt.alibi(np.array([0.5, 0.25]), offset=np.array([0, 1])),
    "relative": overt.relative(normal(8, 2), bidirectional=False, max_distance=9, offset=2),
    "row": normal(1, 4),
    "batch": normal(2, 1, 4, 1),
    "sum": overt.alibi(np.array([0.5, 0.25])) + overt.relative(normal(8, 2)) + normal(4, 4),
    "twice": overt.alibi(np.array([0.5, 0.25])) + overt.alibi(np.array([0.1, 2.0])),
}


@pytest.mark.parametrize(("kind", "name"), [*(("mask", name) for name in MASKS), *(("bias", name) for name in BIASES)])
def test_masks_and_biases_come_back(tmp_path: Path, kind: str, name: str) -> None:
    given = {kind: (MASKS if kind == "mask" else BIASES)[name]}
    seen = overt.attend(*(np.stack([x, -x]) for x in (Q, K, V)), **given)
    (again,) = load(View(seen).save(tmp_path / "x.npz"))
    # What was read can be written again.
    (twice,) = load(View(again).save(tmp_path / "y.npz"))
    for part in (again, twice):
        np.testing.assert_allclose(part.seen.weights[...], seen.weights[...], rtol=1e-12)
        assert repr(part.problem.mask) == repr(seen.problem.mask) or kind == "bias" or "keep" in repr(part.problem.mask)
    if kind == "mask":
        with np.load(tmp_path / "x.npz") as found:
            assert ("mask.bits" in found) == (name in ("scattered", "by head", "one for all", "documents"))


def test_packed_sequences_come_back(tmp_path: Path) -> None:
    seen = overt.attend(Q, K, V, mask=overt.packed([0, 1, 4]) & overt.causal(), bias=overt.alibi(np.array([0.5, 0.25])))
    (again,) = load(View(seen).save(tmp_path / "x.npz"))
    np.testing.assert_allclose(again.seen.weights[...], seen.weights[...], rtol=1e-12)


def test_no_length_is_too_long_for_a_file(tmp_path: Path) -> None:
    # More cells than any file should hold.
    k = normal(1, LARGE, 1, dtype=np.float32)
    options = {
        "mask": overt.causal(),
        "bias": overt.alibi(np.full(1, 0.1, np.float32)) + normal(1, LARGE, dtype=np.float32),
    }
    seen = overt.attend(k, k, k, **options)
    path = View(seen).save(tmp_path / "x.npz")
    assert path.stat().st_size < 40 * LARGE
    (again,) = load(path)
    np.testing.assert_allclose(again.seen.lse, seen.lse, rtol=1e-6)
    assert again.problem.mask is not None
    assert repr(again.problem.mask) == "causal()"


def test_given_weights_come_back(tmp_path: Path) -> None:
    weights = np.random.default_rng(0).dirichlet(np.ones(6), size=(2, 3, 5)).astype(np.float32)
    # As with a sink, a row may sum to less than 1, and as with a mask, it may hold zeros.
    weights[0] *= 0.5
    weights[1, ..., 2] = 0
    (again,) = load(View(weights).save(tmp_path / "x.npz"))
    np.testing.assert_allclose(again.seen.weights[...], weights, rtol=1e-6)
    np.testing.assert_allclose(again.seen.received(), weights.sum(-2), rtol=1e-5)
    np.savez(tmp_path / "y.npz", weights=weights[0, 0])
    code, out, _ = run("show", "data", str(tmp_path / "y.npz"))
    assert code == 0
    assert np.isclose(json.loads(out)["attentions"][0]["top"][0]["weights"][0], weights[0, 0, 0].max())
    # One array alone is weights, too.
    np.save(tmp_path / "y.npy", weights[0, 0])
    assert run("show", "data", str(tmp_path / "y.npy"))[1] == out
    code, out, _ = run("show", "data", str(tmp_path / "y.npz"), "--causal")
    # Of five queries over six keys, the first stands at the second.
    assert (code, set(json.loads(out)["attentions"][0]["top"][0]["keys"])) == (0, {0, 1})


NAMED = ["", "\0", "a\0\0", "é語\U0001f468", "\ud800", "x" * 100_000, " "]


def test_names_are_stored_by_their_length(tmp_path: Path) -> None:
    # One long name among many: at the width of the longest they would take 5 GB.
    names = [*NAMED, *(str(i) for i in range(LARGE - len(NAMED)))]
    k = np.zeros((LARGE, 1), np.float32)
    view = View(Labelled(overt.attend(k[:7], k, k), names, NAMED, name="a\0"))
    path = view.save(tmp_path / "x.npz")
    assert path.stat().st_size < 1_000_000
    (again,) = load(path)
    assert list(again.tokens or ()) == names
    assert list(again.queries or ()) == NAMED
    assert again.name == "a\0"


def test_files_of_earlier_versions(tmp_path: Path) -> None:
    mask, bias = normal(1, 4, 4) > -0.5, normal(2, 4, 4)
    names = {"tokens": np.array(["a", "é", "", "語"]), "queries": np.array([b"q", b"\xc3\xa9", b"\xff", b""])}
    np.savez(tmp_path / "x.npz", q=Q, k=K, v=V, mask=mask, bias=bias, name=np.array("self"), **names)
    (part,) = load(tmp_path / "x.npz")
    np.testing.assert_array_equal(part.seen.output, overt.attention(Q, K, V, mask=mask, bias=bias))
    assert (part.tokens, part.queries, part.name) == (["a", "é", "", "語"], ["q", "é", "\ufffd", ""], "self")


ZERO = np.zeros((1, 1, 1), np.int64)
HOSTILE: list[tuple[dict[str, Any], str]] = [
    ({"mask.first": ZERO}, "mask.last in .* must be integers"),
    ({"mask.first": ZERO, "mask.last": ZERO + 0.5}, "mask.last in .* must be integers"),
    ({"mask.first": np.zeros((3, 1, 1), int), "mask.last": ZERO}, r"mask.first has shape \(3, 1, 1\)"),
    ({"mask.first": ZERO, "mask.last": np.zeros(7, int)}, r"mask.last has shape \(7,\)"),
    ({"mask.first": ZERO, "mask.last": ZERO, "mask.bits": np.zeros((1, 1, 4, 9), np.uint8)}, r"bytes \(B, H, T, 1\)"),
    ({"mask.first": ZERO, "mask.last": ZERO, "mask.bits": np.zeros((5, 1, 4, 1), np.uint8)}, r"bytes \(B, H, T, 1\)"),
    ({"mask.first": ZERO, "mask.last": ZERO, "mask.bits": np.zeros((1, 1, 5, 1), np.uint8)}, "does not broadcast"),
    ({"mask.first": ZERO, "mask.last": ZERO, "mask.bits": np.zeros((1, 1, 4, 1))}, "must be bytes"),
    ({"mask.first": ZERO, "mask.last": ZERO, "mask.bits": np.zeros(1, np.uint8), "k": np.zeros(3)}, "bytes|k has"),
    ({"tokens": np.zeros(3, np.uint8), "tokens.ends": [1, 2, 3, 4]}, "tokens.ends in"),
    ({"tokens": np.zeros(9, np.uint8), "tokens.ends": [1, 5, 3, 4]}, "tokens.ends in"),
    ({"tokens": np.zeros(9, np.uint8), "tokens.ends": [-1, 2, 3, 4]}, "tokens.ends in"),
    ({"tokens": np.zeros(9, np.uint8), "tokens.ends": [0.5, 2, 3, 4]}, "tokens.ends in .* must be integers"),
    ({"tokens": np.zeros(9), "tokens.ends": [1, 2, 3, 4]}, "tokens.ends in"),
    ({"tokens": np.zeros(9, np.uint8), "tokens.ends": [1, 2, 3]}, "3 tokens for 4 keys"),
    ({"alibi": np.zeros(3)}, "3 heads"),
    ({"alibi": np.array("x")}, "alibi slopes must be floats"),
    ({"relative": np.zeros((8, 2)), "relative.max_distance": np.inf}, "relative.max_distance in .* one number"),
    ({"relative": np.zeros((8, 2)), "relative.max_distance": -5}, "max_distance must be at least 0"),
    ({"bias": np.array("x")}, "bias must be floats"),
    ({"dropout": 0.5}, "only one of dropout and dropout.seed"),
    ({"dropout": 1.5, "dropout.seed": 1}, "dropout rate must be"),
    ({"dropout": 0.5, "dropout.seed": -1}, "dropout seed must be"),
]


@pytest.mark.parametrize(("extra", "message"), HOSTILE, ids=range(len(HOSTILE)))
def test_files_that_contradict_themselves(tmp_path: Path, extra: dict[str, Any], message: str) -> None:
    np.savez(tmp_path / "x.npz", **{"q": Q, "k": K, "v": V, **extra})
    with pytest.raises(OvertError, match=message):
        load(tmp_path / "x.npz")


def test_several_attentions_in_one_file(tmp_path: Path) -> None:
    parts = [Labelled(overt.attend(Q * i, K, V), layer=i) for i in range(1, 13)]
    again = load(View(parts).save(tmp_path / "x.npz"))
    assert [part.layer for part in again] == list(range(1, 13))
    np.testing.assert_allclose(again[11].seen.weights[...], parts[11].seen.weights[...])


@pytest.mark.parametrize("dtype", [np.float16, ml_dtypes.bfloat16, np.float32])
def test_dtypes_of_files(tmp_path: Path, dtype: Any) -> None:
    seen = overt.attend(*(x.astype(dtype) for x in (Q, K, V)), bias=normal(4, 4, dtype=np.float32))
    (again,) = load(View(seen).save(tmp_path / "x.npz"))
    np.testing.assert_allclose(again.seen.weights[...], seen.weights[...], rtol=1e-6)


@pytest.mark.parametrize("dtype", [np.float16, ml_dtypes.bfloat16, np.float32, np.float64])
def test_sums_of_biases_come_back(tmp_path: Path, dtype: Any) -> None:
    rng = np.random.default_rng(0)
    H, T = 2, 6
    q, x = (rng.normal(size=(H, T, n)).astype(dtype) for n in (4, T))
    slopes, table = (rng.random(shape).astype(dtype) for shape in ((H,), (8, H)))
    # Beside a large number, which moves no weight, half types have no room for small ones.
    large = overt.relative(table) + np.full((1, 1), 512, dtype) + x
    for bias in (large, overt.alibi(slopes) + x, overt.alibi(slopes) + overt.alibi(2 * slopes)):
        exact = bias.exchanged(tuple(np.asarray(x, np.float64) for x in bias.parameter))
        wide = q.astype(np.float64)
        expected = overt.attend(wide, wide, wide, bias=exact).weights[...]
        seen = overt.attend(q, q, q, bias=bias)
        (again,) = load(View(seen).save(tmp_path / "x.npz"))
        View(seen).page(tmp_path / "x.html")
        for one in (seen, again.seen):
            np.testing.assert_allclose(one.weights[...], expected, rtol=0, atol=1e-12 if dtype == np.float64 else 5e-5)
    packed = overt.attend(q, q, q, bias=overt.alibi(slopes), mask=overt.packed(np.array([0, 2, 6])))
    (again,) = load(View(packed).save(tmp_path / "x.npz"))
    np.testing.assert_allclose(again.seen.weights[...], packed.weights[...], rtol=0, atol=1e-6)


def test_safetensors(tmp_path: Path) -> None:
    save_file({"q": Q, "k": K, "v": V}, tmp_path / "x.safetensors")
    (part,) = load(tmp_path / "x.safetensors")
    np.testing.assert_array_equal(part.seen.output, overt.attention(Q, K, V))
    save_file({"q": Q, "k": K}, tmp_path / "x.safetensors")
    (part,) = load(tmp_path / "x.safetensors")
    np.testing.assert_allclose(part.seen.lse, overt.attend(Q, K, V).lse)


@pytest.mark.parametrize("name", ["x.npz", "x.safetensors"])
def test_files_that_are_none(tmp_path: Path, name: str) -> None:
    with pytest.raises(OvertError, match="cannot read"):
        load(tmp_path / name)
    for content in (b"", b"\x93NUMPY", b"PK\x03\x04 nothing", b"{}" * 100):
        (tmp_path / name).write_bytes(content)
        with pytest.raises(OvertError, match=name):
            load(tmp_path / name)


def test_nothing_is_unpickled(tmp_path: Path) -> None:
    np.savez(tmp_path / "x.npz", q=np.array([{"a": 1}], dtype=object), k=K)
    with pytest.raises(ArgumentError, match=r"cannot be read as arrays: it holds Python objects, not numbers$"):
        load(tmp_path / "x.npz")
    (tmp_path / "x.npz").write_text("hello\n")
    with pytest.raises(ArgumentError, match=r"cannot be read as arrays: it is no \.npy or \.npz file$"):
        load(tmp_path / "x.npz")
    np.savez(tmp_path / "y.npz", q=Q)
    with pytest.raises(ArgumentError, match="holds q, but no k"):
        load(tmp_path / "y.npz")
    np.savez(tmp_path / "z.npz", q=Q, k=K, softcap=np.array([1.0, 2.0]))
    with pytest.raises(ArgumentError, match=r"softcap in .* must be one number"):
        load(tmp_path / "z.npz")


def test_numbered_attentions_of_a_file(tmp_path: Path) -> None:
    # Digits that int() does not read, or reads no more of.
    odd = {"²": Q, "².q": Q, "9" * 5000 + ".q": Q, "7": Q}
    np.savez(tmp_path / "odd.npz", q=Q, k=K, **odd)
    assert len(load(tmp_path / "odd.npz")) == 1
    np.savez(tmp_path / "two.npz", **{"10.q": Q, "10.k": K, "9.q": Q[..., :2, :], "9.k": K})
    assert [part.seen.output.shape[-2] for part in load(tmp_path / "two.npz")] == [2, Q.shape[-2]]


def test_csv(tmp_path: Path) -> None:
    seen = overt.attend(Q, K, V, mask=overt.causal())
    with View(seen, tokens=["a,b", 'c"d', "e\nf", "g"]).csv(tmp_path / "x.csv", k=2).open(newline="") as file:
        lines = list(csv.DictReader(file))
    assert len(lines) == 2 * (1 + 2 + 2 + 2)
    indices, weights = seen.top(2)
    for line in lines:
        h, t, rank = (int(line[name]) for name in ("head", "query", "rank"))
        assert int(line["key"]) == indices[h, t, rank]
        assert float(line["weight"]) == weights[h, t, rank]
        assert line["key token"] == ["a,b", 'c"d', "e\nf", "g"][int(line["key"])]


def test_names_are_no_formulas_of_a_spreadsheet(tmp_path: Path) -> None:
    names = ["=1+1", " @SUM(A1)", "＝1", "-5", "+a", "'+a", "'", "a=b"]
    x = np.zeros((8, 1))
    with View(overt.attend(x, x, x), tokens=names).csv(tmp_path / "x.csv").open(newline="") as file:
        found = {line["query token"] for line in csv.DictReader(file)}
    assert found == {*(f"'{name}" for name in names[:-1]), "a=b"}


RAW = ["\x1b[2J", "a\tb\r\n", " ", "", "\u202e", "\x9b1m", "\ue000", "好 👩\u200d🚀", "\0", '",', "x" * 20_000]


def test_data_hold_tokens_as_they_are(tmp_path: Path) -> None:
    x = np.ones((len(RAW), 1))
    view = View(Labelled(overt.attend(x, x, x), RAW, name="a\x07", source="b\n"), title="\x1bc")
    found = view.as_dict(k=1)
    (part,) = found["attentions"]
    assert (part["tokens"], part["queries"], part["name"], found["title"]) == (RAW, RAW, "b\n · a\x07", "\x1bc")
    with view.csv(tmp_path / "x.csv", k=1).open(newline="", encoding="utf-8") as file:
        assert [line["query token"] for line in csv.DictReader(file)] == RAW
    view.save(tmp_path / "x.npz")
    code, out, _ = run("show", "data", str(tmp_path / "x.npz"))
    assert code == 0
    assert out.removesuffix("\n").isprintable()
    assert "好" in out
    assert json.loads(out)["attentions"][0]["tokens"] == RAW
    assert run("show", "data", str(tmp_path / "x.npz"), "-o", str(tmp_path / "x.json"))[0] == 0
    assert (tmp_path / "x.json").read_text("utf-8") == out


def test_a_notebook_shows_the_page(monkeypatch: pytest.MonkeyPatch) -> None:
    view = View(overt.attend(Q, K, V), title='"><script>')
    bundle = view._repr_mimebundle_()
    html, png = bundle["text/html"], bundle["image/png"]
    assert '<iframe sandbox="allow-scripts" title="&quot;&gt;&lt;script&gt;"' in html
    # The frame, and a picture for where frames are taken out.
    assert html.count("<") == 5
    assert f"data:image/png;base64,{png}" in html
    assert b64decode(png).startswith(b"\x89PNG")
    monkeypatch.setattr("overt.views.notebook.find_spec", lambda _: None)
    plain = view._repr_mimebundle_()
    assert list(plain) == ["text/html"]
    assert plain["text/html"].count("<") == 2
    large = View(
        overt.attend(
            *(normal(1, 9000, 64, dtype=np.float32)[..., :64] for _ in range(2)), normal(1, 9000, 0, dtype=np.float32)
        )
    )
    html = large._repr_mimebundle_()["text/html"]
    assert all(way in html for way in (".widget()", ".page(path)"))
    assert len(html) < 1000
    assert picture(large) is None


def test_a_notebook_shows_figures_and_widgets_as_pictures() -> None:
    from IPython.core.formatters import DisplayFormatter

    view = View(overt.attend(Q, K, V), tokens=WORDS)
    shown, _ = DisplayFormatter().format(view.figure())
    assert shown["image/png"].startswith(b"\x89PNG")
    assert set(shown) == {"image/png", "text/plain"}
    # Pyplot knows nothing of it and so does not show it once more.
    from matplotlib import pyplot

    assert pyplot.get_fignums() == []
    bundle = view.widget()._repr_mimebundle_()
    data = bundle[0] if isinstance(bundle, tuple) else bundle
    assert b64decode(data["image/png"]).startswith(b"\x89PNG")


def test_a_view_is_text_in_a_notebook_too(monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]) -> None:
    view = View(overt.attend(Q, K, V), tokens=WORDS)
    text = str(view)
    # There rich shows what is printed at once, as HTML, and leaves nothing in the file.
    monkeypatch.setattr("rich.console._is_jupyter", lambda: True)
    assert str(view) == text
    assert "strongest pairs" in text
    assert capsys.readouterr().out == ""


# Figures.


@pytest.mark.parametrize("kind", ["map", "heads", "entropy", "received", "variance"])
@pytest.mark.parametrize("length", [4, 60])
def test_figures(kind: str, length: int) -> None:
    x = normal(3, length, 8)
    seen = overt.attend(x, x, x, mask=overt.causal())
    figure = View(seen, tokens=[f"$w_{i}" for i in range(length)]).figure(kind)
    assert isinstance(figure, Figure)
    figure.canvas.draw()
    axes = figure.axes[0]
    if kind == "map":
        shown = axes.images[0].get_array()
        np.testing.assert_allclose(shown.filled(0), seen.weights[...].mean(axis=0), atol=1e-12)
        np.testing.assert_array_equal(shown.mask, np.triu(np.ones((length, length), bool), 1))
    elif kind == "heads":
        np.testing.assert_allclose(figure.axes[1].images[0].get_array(), seen.weights[1], atol=1e-12)
    elif kind == "variance":
        np.testing.assert_allclose(axes.lines[0].get_ydata(), axes.lines[0].get_xdata(), rtol=0.3)
        np.testing.assert_allclose(axes.lines[1].get_ydata(), 1, rtol=0.3)
    else:
        values = seen.entropy() if kind == "entropy" else seen.received()
        np.testing.assert_allclose([line.get_ydata() for line in axes.lines], values)


def test_a_figure_says_which_layer_it_is_of_and_all_of_its_title() -> None:
    title = "a title that is much longer than any figure is wide, " * 3
    parts = [Labelled(overt.attend(Q, K, V, mask=overt.causal()), WORDS, name="cross", layer=layer) for layer in (0, 3)]
    figure = View(parts, title=title).figure("heads", part=1)
    figure.canvas.draw()
    lines = figure.get_suptitle().split("\n")
    assert lines[-1] == "layer 3 · cross"
    assert " ".join(lines[:-1]) == title.strip()
    box, (width, _) = figure._suptitle.get_window_extent(), figure.get_size_inches() * figure.dpi
    assert box.x0 >= 0
    assert box.x1 <= width
    # Masked cells are no zeros, in small pictures too.
    shown = figure.axes[0].images[0].get_array()
    np.testing.assert_array_equal(shown.mask, np.triu(np.ones((4, 4), bool), 1))


@pytest.mark.parametrize("kind", ["map", "heads"])
def test_masked_bins_of_a_large_map_are_no_zeros(kind: str) -> None:
    x = normal(2, 1000, 4)
    part = Labelled(overt.attend(x, x, x, mask=overt.causal() & overt.window(90, 0)))
    figure = View(part).figure(kind)
    figure.canvas.draw()
    axes = figure.axes[0]
    shown = axes.images[0].get_array()
    assert max(shown.shape) < 1000
    np.testing.assert_array_equal(shown.mask, ~part.visible_bins(0, 0, *shown.shape))
    assert 0.5 < shown.mask.mean() < 1
    # Behind them is hatching, and below the figure what it means.
    assert axes.patch.get_hatch()
    assert axes.images[0].cmap.get_bad()[3] == 0
    assert [text.get_text() for text in figure.legends[0].get_texts()] == ["masked"]
    assert not View(overt.attend(x, x, x)).figure(kind).legends


def test_the_alignment_of_a_translation() -> None:
    cross = [overt.attend(normal(2, 3, 8, seed=i), normal(2, 4, 8), normal(2, 4, 1)) for i in range(2)]
    parts = [Labelled(overt.attend(Q, K, V), WORDS, name="encoder")]
    parts += [Labelled(one, ["▁My", *WORDS[1:]], ["x", "y", "z"], "cross", i) for i, one in enumerate(cross)]
    figure = View(parts, title="a translation").figure("alignment")
    figure.canvas.draw()
    (axes, bar) = figure.axes
    np.testing.assert_allclose(axes.images[0].get_array(), cross[1].weights[...].mean(axis=0), atol=1e-12)
    assert [name.get_text() for name in axes.get_xticklabels()] == WORDS
    assert [name.get_text() for name in axes.get_yticklabels()] == ["x", "y", "z"]
    assert axes.xaxis.get_ticks_position() == "top"
    assert axes.images[0].get_clim() == (0, 1)
    assert bar.get_ylabel() == "mean weight of 2 heads, linear"
    assert figure.get_suptitle() == "a translation\nlayer 1 · cross"
    one = View(parts).figure("alignment", head=1)
    np.testing.assert_allclose(one.axes[0].images[0].get_array(), cross[1].weights[1], atol=1e-12)
    with pytest.raises(ArgumentError, match="an alignment is drawn of cross-attention, and here is none"):
        View(parts[0]).figure("alignment")


def test_the_command_shades_by_decades_when_asked(tmp_path: Path) -> None:
    x = normal(1, 200, 8)
    path = str(View(overt.attend(x, x, x)).save(tmp_path / "x.npz"))
    assert ", linear" in run("show", path)[1]
    assert "weight 1e-05 ░▒▓█ 1, logarithmic" in run("show", path, "--log")[1]
    for name, options in (("linear", []), ("log", ["--log"])):
        run("show", "figure", path, *options, "-o", str(tmp_path / f"{name}.png"))
    assert (tmp_path / "linear.png").read_bytes() != (tmp_path / "log.png").read_bytes()


def test_letters_that_no_font_has_are_named(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    from matplotlib import font_manager

    view = View(overt.attend(Q, K, V), tokens=["我", "爱", "你", "."])
    # matplotlib's own font of last resort has boxes for all letters, and is no answer.
    own = [one for one in font_manager.fontManager.ttflist if one.name.startswith(("DejaVu", "Last Resort"))]
    monkeypatch.setattr(font_manager.fontManager, "ttflist", own)
    with pytest.warns(UserWarning, match="no font here has 你我爱: install one that has, such as Noto Sans CJK"):
        figure = view.figure()
    # Said once: drawing it warns of nothing more, and warnings are errors here.
    assert figure._repr_png_().startswith(b"\x89PNG")
    # The command says it in one line, too.
    code, out, error = run("show", "figure", str(view.save(tmp_path / "x.npz")), "-o", str(tmp_path / "x.svg"))
    assert (code, out.startswith("wrote ")) == (0, True)
    assert error == "overt: no font here has 你我爱: install one that has, such as Noto Sans CJK\n"


def test_no_row_of_an_alignment_is_empty() -> None:
    alignment = np.array([[0.1] * 10, [0.91] + [0.01] * 9])
    plain = Paper(Console(width=80, color_system=None))
    # The colour of a skin takes no room, and has a cell all the same.
    rows = table(["\U0001f469", "\U0001f3fd", "b"], "xy", np.array([[0, 0.5, 0.1], [0, 0, 1]]), plain).plain.split("\n")
    assert rows[1].split() == ["x", "▒"]
    assert rows[2].split() == ["y", "█"]
    first, second = table("abcdefghij", "xy", alignment, plain).plain.split("\n")[1:]
    assert first.split() == ["x", *["░"] * 10]
    assert second.split() == ["y", "█"]
    # With colours a cell has its shade, and the token that was looked at most a dot, so that no row is empty either.
    text = table("abcdefghij", "xy", alignment, colored())
    assert [line.split() for line in text.plain.split("\n")[1:]] == [["x", *["•"] * 10], ["y", "•"]]
    backs = [span.style.bgcolor.triplet for span in text.spans]  # type: ignore[union-attr]
    assert backs == [tuple(color) for color in shades(alignment).reshape(-1, 3)]
    assert "• its most" in legend(colored()).plain


@pytest.mark.parametrize("kind", ["map", "heads", "alignment"])
def test_shades_of_a_figure_are_linear_from_0_to_1_unless_asked(kind: str) -> None:
    x = np.stack([6 * normal(64, 8), 3 * normal(64, 8, seed=1)])
    # Some weights are 0, which is not masked.
    seen = overt.attend(x, x, x, bias=np.where(np.arange(64) == 5, -1e4, 0)[None, :])
    view = View(Labelled(seen, name="cross"))
    figure = view.figure(kind)
    images = [axes.images[0] for axes in figure.axes if axes.images]
    assert {image.get_clim() for image in images} == {(0, 1)}
    assert (
        figure.axes[-1]
        .get_ylabel()
        .endswith(", linear\nmost weights here are below 0.04:\nlog=True (--log) shows them")
    )
    figure = view.figure(kind, log=True)
    figure.canvas.draw()
    images = [axes.images[0] for axes in figure.axes if axes.images]
    for image in images:
        assert type(image.norm).__name__ == "LogNorm"
        assert image.get_clim() == (1e-4, 1)
        # 0 has the colour of the scale's end, and does not let hatching through.
        np.testing.assert_array_equal(image.to_rgba(np.zeros(1))[0], image.to_rgba(np.full(1, 1e-4))[0])
        assert not np.ma.getmaskarray(image.get_array()).any()
    assert figure.axes[-1].get_ylabel().replace("\n", " ").endswith(", logarithmic")
    assert not figure.legends


def test_a_figure_of_faint_weights_says_where_its_shades_end() -> None:
    zeros = np.zeros((1, 64, 4))
    figure = View(overt.attend(zeros, zeros, zeros)).figure()
    assert figure.axes[0].images[0].get_clim() == (0, 0.02)
    said = figure.axes[-1].get_ylabel().replace("\n", " ")
    assert said == "weight, linear, all of it faint: the shades end at 0.02, not at 1"


def test_figures_that_are_not_there() -> None:
    with pytest.raises(ArgumentError, match="no figure 'bar': choose one of map, heads"):
        View(overt.attend(Q, K, V)).figure("bar")
    with pytest.raises(ArgumentError, match="log is a scale of shades, and entropy has none"):
        View(overt.attend(Q, K, V)).figure("entropy", log=True)


def test_the_colours_grow_darker_evenly() -> None:
    colors = np.array(shades(np.linspace(0, 1, 101)), float) / 255
    linear = np.where(colors <= 0.04045, colors / 12.92, ((colors + 0.055) / 1.055) ** 2.4)
    luminance = linear @ [0.2126, 0.7152, 0.0722]
    lightness = 116 * np.cbrt(luminance) - 16
    assert (np.diff(lightness) < 0).all()
    stops = lightness[np.linspace(0, 100, len(STOPS)).round().astype(int)]
    assert np.abs(np.diff(stops) - np.diff(stops).mean()).max() < 4


# The command.


def run(*arguments: str) -> tuple[int, str, str]:
    from overt.cli import group

    result = CliRunner().invoke(group, arguments, standalone_mode=False, catch_exceptions=False)
    return result.exit_code, result.stdout, result.stderr


@pytest.mark.parametrize("lesson", LESSONS)
def test_every_lesson_runs(lesson: str, tmp_path: Path) -> None:
    code, out, _ = run("show", lesson)
    assert code == 0
    assert out
    run("show", "page", lesson, "-o", str(tmp_path / "x.html"))
    run("show", "data", lesson, "-o", str(tmp_path / "x.npz"))
    assert (tmp_path / "x.html").stat().st_size > 10_000
    assert run("show", str(tmp_path / "x.npz"))[0] == 0
    found = json.loads(run("show", "data", lesson, "--layer", "0")[1])
    assert sum(found["attentions"][0]["top"][0]["weights"]) <= 1 + 1e-9
    assert lesson in run("show")[1]


def test_lessons_say_what_the_tutorials_should() -> None:
    known = json.loads((Path(__file__).parent / "lessons.json").read_text())
    weights = [np.asarray(part.seen.weights) for part in LESSONS["my-name-is-john"]().parts]
    np.testing.assert_allclose(weights[0], known["self_attention"]["decoder_weights"], atol=1e-7)
    bat, words = LESSONS["bat"]().parts[0].seen, known["word_similarity"]
    # In each sentence, the words that it has.
    for query, keys, name in ((0, [0, 1], "bat_cave"), (1, [0, 2], "bat_racket")):
        np.testing.assert_allclose(bat.weights[query : query + 1][:, keys], words[f"{name}_weights"], atol=1e-7)
        np.testing.assert_allclose(bat.output[query], words[f"{name}_context"][0], atol=1e-7)
    np.testing.assert_allclose(LESSONS["single-query"]().parts[0].seen.weights[...], [[0, 0, 1]], atol=1e-7)
    got = LESSONS["additive"]().parts[0].seen.weights[...]
    np.testing.assert_allclose(got.T, known["additive"]["weights"], atol=1e-7)
    np.testing.assert_allclose(
        LESSONS["dot-product"]().parts[0].seen.weights[...], known["dot_product"]["weights"], atol=1e-7
    )
    got = LESSONS["encoder-decoder"]().parts[0].seen.weights[0, 0, 0]
    np.testing.assert_allclose(got, known["encoder_decoder"]["weights_first_row"], atol=1e-7)


def test_masked_weights_of_a_trace_are_no_zeros() -> None:
    lines = str(LESSONS["my-name-is-john"]()).splitlines()
    at = next(i for i, line in enumerate(lines) if line.startswith(" 7 weights"))
    assert ["My", "1.0000", "·", "·", "·"] in [line.split() for line in lines[at:]]
    # A weight that a bias makes 0 is one.
    lines = str(LESSONS["dot-product"]()).splitlines()
    at = next(i for i, line in enumerate(lines) if line.startswith(" 7 weights"))
    assert ["0", "1.0000", "0.0000"] in [line.split() for line in lines[at:]]


def test_files_of_the_command(tmp_path: Path) -> None:
    np.savez(tmp_path / "x.npz", q=Q, k=K, v=V)
    (tmp_path / "tokens").write_text("a\nb\nc\nd\n")
    path, tokens = str(tmp_path / "x.npz"), str(tmp_path / "tokens")
    causal = json.loads(run("show", "data", path, "--causal", "--tokens", tokens, "--top", "2")[1])["attentions"][0]
    indices, weights = overt.attend(Q, K, V, mask=overt.causal()).top(2)
    assert causal["top"][-1] == {
        "row": 0, "head": 1, "query": 3, "keys": indices[1, 3].tolist(), "weights": weights[1, 3].tolist(),
    }  # fmt: skip
    assert causal["tokens"] == list("abcd")
    steps = json.loads(run("show", "data", path, "--steps", "--causal")[1])["steps"]
    assert [step["name"] for step in steps] == list(overt.trace(Q, K, V, mask=overt.causal()).names)
    code, out, _ = run("show", "figure", path, "-o", str(tmp_path / "x.svg"), "--kind", "heads")
    assert (code, out.startswith("wrote")) == (0, True)
    assert "<svg" in (tmp_path / "x.svg").read_text()


def test_data_are_of_the_kind_that_their_name_says(tmp_path: Path) -> None:
    printed = run("show", "data", "bat", "--top", "1")[1]
    for name, kind in (
        ("x.json", None),
        ("x.csv", None),
        ("x.npz", None),
        ("json", "json"),
        ("csv", "csv"),
        ("npz", "npz"),
    ):
        options = () if kind is None else ("--format", kind)
        code, out, _ = run("show", "data", "bat", "--top", "1", "-o", str(tmp_path / name), *options)
        assert (code, out) == (0, f"wrote {tmp_path / name} ({(tmp_path / name).stat().st_size:,} bytes)\n")
    for prefix in ("", "x."):
        assert (tmp_path / f"{prefix}json").read_text() == printed
        assert len((tmp_path / f"{prefix}csv").read_text().splitlines()) == 3
        assert load(tmp_path / f"{prefix}npz")[0].keys == ("bat", "cave", "racket")


def overt_of(folder: Path, *arguments: str, given: str = "") -> subprocess.CompletedProcess[str]:
    """The command as another process, in a folder."""
    program = "import os, sys; os.chdir(sys.argv.pop(1)); from overt.cli import main; main()"
    whole = [sys.executable, "-c", program, str(folder), *arguments]
    return subprocess.run(whole, input=given, capture_output=True, text=True, encoding="utf-8", timeout=100)


def test_a_dash_is_a_standard_stream(tmp_path: Path) -> None:
    np.savez(tmp_path / "x.npz", q=Q, k=K, v=V)
    printed = run("show", "data", str(tmp_path / "x.npz"))[1]
    assert overt_of(tmp_path, "show", "data", "x.npz", "-o", "-").stdout == printed
    assert overt_of(tmp_path, "show", "data", "x.npz", "-o", "-", "--format", "csv").stdout.startswith("layer,name")
    page = overt_of(tmp_path, "show", "page", "x.npz", "-o", "-").stdout
    assert (page.startswith("<!doctype html>"), page.rstrip().endswith("</html>")) == (True, True)
    found = overt_of(tmp_path, "show", "data", "x.npz", "--tokens", "-", given="α\nb\nc\nd\n").stdout
    assert json.loads(found)["attentions"][0]["tokens"] == ["α", "b", "c", "d"]
    figure = overt_of(tmp_path, "show", "figure", "x.npz", "-o", "-")
    assert (figure.returncode, figure.stdout, len(figure.stderr.splitlines())) == (2, "", 1)
    assert [path.name for path in tmp_path.iterdir()] == ["x.npz"]
    assert overt_of(tmp_path, "show", "data", "x.npz", "-o", "./-", "--format", "json").returncode == 0
    assert (tmp_path / "-").read_text() == printed


@pytest.mark.parametrize(
    "arguments",
    [
        ("attend", "-", "k.npy", "v.npy", "-o", "seen"),
        ("attend", "q.npy", "k.npy", "v.npy", "-o", "-"),
        ("train", "pairs.tsv", "-o", "-"),
        ("export", "en-zh", "--to", "ctranslate2", "-o", "-"),
        ("record", "model", "text", "--page", "-"),
        ("record", "model", "text", "--save", "-"),
        ("check", "x.py", "--junit", "-"),
    ],
    ids=lambda arguments: " ".join(arguments),
)
def test_a_dash_is_refused_where_there_is_no_stream(
    arguments: tuple[str, ...], capsys: pytest.CaptureFixture[str], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    with pytest.raises(SystemExit) as stopped:
        main(list(arguments))
    out, err = capsys.readouterr()
    assert (stopped.value.code, out, list(tmp_path.iterdir())) == (2, "", [])
    assert re.fullmatch(r"overt: Invalid value for '.*': standard input and output will not do here: .* \./-\)\n", err)


def test_a_file_is_computed_once(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    np.savez(tmp_path / "x.npz", q=Q, k=K, v=V)
    counted, attend = [], kernels.attend

    def counting(problem: Any) -> Any:
        counted.append(problem)
        return attend(problem)

    monkeypatch.setattr(kernels, "attend", counting)
    assert run("show", str(tmp_path / "x.npz"), "--causal")[0] == 0
    assert len(counted) == 1


def test_what_is_shown_may_be_changed_whatever_it_is(tmp_path: Path) -> None:
    # Flags do not forbid each other: lessons, files and translations take the same ones.
    (tmp_path / "names").write_text("one\ntwo\n")
    names, file = str(tmp_path / "names"), str(tmp_path / "two.npz")
    x = np.eye(2)
    View([Labelled(overt.attend(x, x, x), layer=layer) for layer in range(2)]).save(file)
    code, out, _ = run("show", "data", file, "--layer", "1", "--causal", "--tokens", names, "--queries", names)
    (found,) = json.loads(out)["attentions"]
    assert (code, found["tokens"], found["queries"]) == (0, ["one", "two"], ["one", "two"])
    assert found["top"][0]["keys"] == [0]
    assert "steps" not in json.loads(out)
    steps = json.loads(run("show", "data", file, "--layer", "1", "--causal", "--steps")[1])["steps"]
    assert {step["name"]: step["values"] for step in steps}["weights"][0] == [1, 0]
    # A lesson that is shown step by step stays so.
    steps = json.loads(run("show", "data", "single-query", "--causal")[1])["steps"]
    assert "masked" in [step["name"] for step in steps]


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (["nothing"], "there is no file, folder or lesson 'nothing'"),
        (["none.npz"], "cannot read none.npz: No such file"),
        (
            ["I", "--model", "en-zh", "--steps"],
            "--steps shows one attention, and there are 9: choose one with --layer and --name",
        ),
        (["bat", "--tokens", "none"], "cannot read none"),
        (["page", "bat", "-o", "none/x.html"], "cannot write none/x.html: No such file or directory"),
        (["figure", "bat", "-o", "x.bmp"], "give .png, .svg or .pdf"),
        (["bat", "--head", "7"], "there is no head 7"),
        (["data", "bat", "--top", "0"], "--top"),
        (["data", "bat", "-o", "x.txt"], "the name of x.txt does not say what it shall hold: give --format json, csv"),
        (["data", "bat", "--format", "npz"], "give it a file, -o FILE.npz"),
        (["page", "bat"], "Missing option '-o'"),
        (["page", "-o", "x.html"], "Missing argument 'WHAT...'"),
        (["terminal"], "Missing argument 'WHAT...'"),
        (["./page"], "there is no file, folder or lesson './page'"),
        (["--", "page"], "there is no file, folder or lesson 'page'"),
        # What another way out has, and how it was once spelled.
        (["bat", "--kind", "heads"], "No such option: --kind: overt show figure has it"),
        (["bat", "-o", "x.html"], "No such option: -o: overt show page or figure or data has it"),
        (["page", "bat", "-o", "x.html", "--head", "0"], "overt show terminal or figure has it"),
        (["data", "bat", "--query", "0"], "overt show terminal has it"),
        (["figure", "bat", "-o", "x.svg", "--steps"], "overt show terminal or page or data has it"),
        (["bat", "--page", "x.html"], "No such option: --page: overt show page WHAT -o FILE.html"),
        (["bat", "--json"], "overt show data WHAT"),
        (["bat", "--save=x.npz"], "overt show data WHAT -o FILE.npz"),
        (["bat", "--nothing"], "No such option"),
    ],
)
def test_mistakes_are_one_line(arguments: list[str], message: str, capsys: pytest.CaptureFixture[str]) -> None:
    with pytest.raises(SystemExit) as stop:
        main(["show", *arguments])
    error = capsys.readouterr().err
    assert stop.value.code == 2
    assert message in error
    assert len(error.splitlines()) == 1


def test_a_name_alone_is_printed(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    printed = run("show", "terminal", "bat")
    assert printed[0] == 0
    assert run("show", "bat") == run("show", "--", "bat") == run("show", "--debug", "bat") == printed
    # Options may come first, and a file may be called like a command.
    assert run("show", "--head", "0", "bat")[1] == run("show", "bat", "--head", "0")[1]
    monkeypatch.chdir(tmp_path)
    Path("page").mkdir()
    with pytest.raises(FileError, match="page holds no finished attention"):
        run("show", "./page")


@pytest.mark.parametrize("way", ["", "terminal", "page", "figure", "data"])
def test_help_fits_a_window(way: str, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]) -> None:
    monkeypatch.setenv("COLUMNS", "80")
    with pytest.raises(SystemExit) as stop:
        main(["show", *way.split(), "--help"])
    out = capsys.readouterr().out
    assert stop.value.code == 0
    assert "Example" in out
    assert "--debug" in out
    assert max(map(len, out.splitlines())) <= 80
    if not way:
        assert all(f"  {name}  " in out for name in ("terminal", "page", "figure", "data", *LESSONS))


def test_an_overview_in_bands_is_that_of_the_whole(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    rng = np.random.default_rng(0)
    q, k, v = (rng.normal(size=(4, n, 256)).astype(np.float32) for n in (1003, 1100, 1100))
    seen = overt.attend(q, k[:2], v[:2], mask=overt.window(300, 0))
    view = View(seen)
    monkeypatch.setattr(stored, "_SOON", 90_000)
    told: list[tuple[int, int]] = []
    view.page(tmp_path / "page.html", report=lambda done, total: told.append((done, total)))
    assert len(told) > 10
    assert told[0][0] == 0
    assert [done for done, _ in told] == sorted({done for done, _ in told})
    assert told[-1] == (told[0][1],) * 2
    largest, received, entropy = stored.Stored.of(view.parts[0], "float32").overview(64)
    np.testing.assert_allclose(largest[0], seen.map(64, 64), rtol=1e-5)
    np.testing.assert_allclose(received[0], seen.received(), rtol=1e-4, atol=1e-5)
    np.testing.assert_allclose(entropy[0], seen.entropy(), rtol=1e-5, atol=1e-6)


@pytest.mark.parametrize(
    "options",
    [
        {},
        {"mask": overt.causal(), "sinks": np.array([0.5, -np.inf, 1.0, 2.0])},
        {"mask": overt.window(9, 0) | overt.keep(np.arange(80) % 7 == 0), "softcap": 3.0},
        {"bias": overt.alibi(overt.positions.alibi_slopes(4)), "mask": ~overt.causal()},
        {"score": overt.cosine(4.0)},
        {"score": overt.bilinear(normal(8, 8))},
        {"score": overt.additive(normal(5, 8), normal(5, 8, seed=1), normal(5))},
    ],
    ids=range(7),
)
@pytest.mark.parametrize("precision", ["float16", "float32"])
def test_log_sums_of_long_texts_are_those_of_short_ones(
    options: dict[str, Any], precision: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Worked out some queries and some keys at a time, in float64 of the numbers as they are stored."""
    q, k, v = normal(2, 4, 70, 8), normal(2, 2, 80, 8, seed=1), normal(2, 2, 80, 3, seed=2)
    label = Labelled(overt.attend(q, k, v, **options))
    short = stored.Stored.of(label, precision)
    expected, overview = short.lse, short.overview(16)
    monkeypatch.setattr(stored, "_FEW", 0)
    monkeypatch.setattr(stored, "_ROWS", 8 * 24)
    long = stored.Stored.of(label, precision)
    assert long.lse.dtype == np.float64
    np.testing.assert_allclose(long.lse, expected, rtol=1e-14, atol=1e-14)
    for found, other in zip(long.overview(16), overview, strict=True):
        assert found.dtype == np.float32
        np.testing.assert_allclose(found, other, rtol=1e-5, atol=1e-6)
