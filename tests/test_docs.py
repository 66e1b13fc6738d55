"""The lessons run, and give the numbers that are right; what the documentation links to is there, and its code runs."""

from __future__ import annotations

import json
import linecache
import re
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest

ROOT = Path(__file__).parent.parent
PAGES = [
    ROOT / "README.md",
    ROOT / "CONTRIBUTING.md",
    ROOT / "native/README.md",
    *sorted((ROOT / "docs").rglob("*.md")),
]
LESSONS = {path.stem: path for path in sorted((ROOT / "docs/lessons").glob("[0-9]*.md"))}
# The code of a lesson and what its sentences ask for, in their order.
CELLS = re.compile(r"^```\{code-cell\}\n(.*?)^```$|\{eval\}`([^`]*)`", re.MULTILINE | re.DOTALL)
NUMBERS = json.loads((ROOT / "tests/lessons.json").read_text())
# What each lesson computes by hand, by the lesson of the numbers and the names there.
EXPECTED = {
    "1-single-query": ("single_query", {"q": "query", "k": "keys", "v": "values", "scores": "scaled_scores"}),
    "2-self-attention": (
        "self_attention",
        {
            "scores": "dot",
            "scaled": "scaled",
            "variance": "variance",
            "weights": "encoder_weights",
            "context": "encoder_context",
            "causal_weights": "decoder_weights",
            "causal_context": "decoder_context",
        },
    ),
    "3-meaning": (
        "word_similarity",
        {"cosine": "cosine", "bat_cave_context": "bat_cave_context", "bat_racket_context": "bat_racket_context"},
    ),
    "4-additive": ("additive", {"scores": "scores", "weights": "weights", "context": "context"}),
    "5-encoder-decoder": ("encoder_decoder", {}),
    "6-a-real-model": (None, {}),
}


def blocks(page: Path, kind: str) -> list[str]:
    """The code blocks of a page, of one kind."""
    return re.findall(rf"^```{re.escape(kind)}\n(.*?)^```$", page.read_text(), re.MULTILINE | re.DOTALL)


def run(code: str, name: str, names: dict[str, Any]) -> None:
    """Run a block under a name by which its source can be found."""
    linecache.cache[name] = len(code), None, code.splitlines(keepends=True), name
    exec(compile(code, name, "exec"), names)


# And what the checker says there of the tutorial's code.
MISTAKES = {
    "1-single-query": {"no_exp_norm", "shared_projection"},
    "2-self-attention": {"no_max"},
    "3-meaning": {"python_list", "k_transposed_wrong"},
    "4-additive": {"global_read"},
    "5-encoder-decoder": {"softmax_missing", "mask_float_as_bool", "global_read"},
    "6-a-real-model": set(),
}


# What is said of the numbers in words.
SAID: dict[str, Callable[[dict[str, Any]], bool]] = {
    "1-single-query": lambda names: names["weights"].argmax() == 2,
    "2-self-attention": lambda names: round(names["scores"].var() / names["scaled"].var(), 9) == names["q"].shape[-1],
    "6-a-real-model": lambda names: (
        [names["target"][i] for i in np.argsort(-names["change"])].index("雨") == 0
        and names["change"][names["target"].index("下")] < names["change"][names["target"].index("给")]
    ),
}


@pytest.mark.parametrize("lesson", LESSONS)
def test_lessons_run_and_say_what_is_right(lesson: str, capsys: pytest.CaptureFixture[str]) -> None:
    names: dict[str, Any] = {"__name__": "lesson"}
    for i, (code, asked) in enumerate(CELLS.findall(LESSONS[lesson].read_text())):
        if asked:
            # A number that a sentence asks for.
            assert re.fullmatch(r"[h\d.,%() GMB]+", repr(eval(asked, names)).strip("'")), asked
        else:
            run(code, f"<{lesson} {i}>", names)
    source, same = EXPECTED[lesson]
    for mine, theirs in same.items():
        got, expected = names[mine], NUMBERS[source][theirs]
        if isinstance(got, dict):
            got, expected = list(got.values()), list(expected.values())
        np.testing.assert_allclose(np.ravel(got), np.ravel(expected), rtol=0, atol=1e-7)
    assert SAID.get(lesson, lambda _: True)(names)
    said = capsys.readouterr().out
    verdict = re.search(r"^\S+ is wrong: (.*)$", said, re.MULTILINE)
    assert set(verdict[1].split(", ") if verdict else []) == MISTAKES[lesson]


@pytest.mark.parametrize("page", PAGES, ids=lambda page: str(page.relative_to(ROOT)))
def test_links_lead_somewhere(page: Path) -> None:
    for target in re.findall(r"\]\(([^)#]+?)(?:#[^)]*)?\)", page.read_text()):
        assert target.startswith("http") or (page.parent / target).exists(), target


@pytest.mark.parametrize("page", ["README.md", "docs/index.md", "docs/recipes.md"])
def test_code_blocks_run(page: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    for i, code in enumerate(blocks(ROOT / page, "python")):
        # As it stands, but for lengths that take a while.
        code = code.replace("32_768", "2_048").replace("31_000:31_010", "2_000:2_010")
        run(code, f"<{page} {i}>", {"__name__": "page"})
