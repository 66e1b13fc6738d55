"""How often ``overt check`` points at the line that is wrong.

tests/check_candidates/lines.json has, for each candidate and mistake, pieces of the lines that are a right place:
a line counts if it holds one of them and lies in the candidate, or in what the candidate names in its file.
Lines of single mistakes are looked at where the candidates are checked (test_check.py); ELSEWHERE are those that are
still another line.  The thresholds of triples are what was measured when they were written.
"""

from __future__ import annotations

import ast
import json
from pathlib import Path

import pytest

from overt.check.checking import examine
from overt.check.mistakes import MISTAKES
from overt.check.process.session import Session
from overt.check.report import Report

HERE = Path(__file__).parent / "check_candidates"
PIECES: dict[str, dict[str, dict[str, list[str]]]] = json.loads((HERE / "lines.json").read_text())
SINGLE = [(file, candidate) for file in PIECES if file != "triples" for candidate in PIECES[file]]
TRIPLES = [("triples", candidate) for candidate in PIECES["triples"]]
# Of 138 single mistakes; most of them are shown only by further calls, which no line made.
ELSEWHERE = {
    ("numpy_mistakes", "causal_attend_open", "causal_missing"),
    ("numpy_mistakes", "alibi_bias", "alibi_sign"),
    ("other_styles", "ScaledEmbedding", "embed_scale"),
    ("second_sight", "causal_upper", "mask_inverted"),
    ("torch_mistakes", "get_alibi_bias", "alibi_sign"),
    ("torch_mistakes", "sdpa_softcap_forgotten", "kv_len_mismatch"),
    ("torch_mistakes", "sdpa_causal_corner", "kv_len_mismatch"),
}
# Of 60 mistakes in triples: how many are told at all, and how many with a right line.
TRIPLE_TOLD = 60
TRIPLE_LINES = 53


def lines(file: str, candidate: str) -> dict[str, set[int]]:
    """For each mistake of a candidate the numbers of the lines that are a right place."""
    source = (HERE / f"{file}.py").read_text()
    defined = {n.name: n for n in ast.parse(source).body if isinstance(n, ast.FunctionDef | ast.ClassDef)}
    todo, spans = [candidate], dict[str, ast.FunctionDef | ast.ClassDef]()
    while todo:
        name = todo.pop()
        if name in defined and name not in spans:
            spans[name] = defined[name]
            todo += [n.id for n in ast.walk(defined[name]) if isinstance(n, ast.Name)]
    numbers = {i for node in spans.values() for i in range(node.lineno, (node.end_lineno or node.lineno) + 1)}
    text = source.splitlines()
    return {
        mistake: {i for i in numbers if any(piece in text[i - 1] for piece in pieces)}
        for mistake, pieces in PIECES[file][candidate].items()
    }


def placed(file: str, candidate: str, report: Report) -> dict[tuple[str, str, str], bool]:
    """For each mistake that was told whether its line is right."""
    expected = lines(file, candidate) if candidate in PIECES.get(file, {}) else {}
    return {
        (file, candidate, finding.id): finding.where is not None and finding.where["line"] in expected[finding.id]
        for finding in report.findings
        if finding.id in expected
    }


@pytest.mark.parametrize(("file", "candidate"), SINGLE + TRIPLES)
def test_each_mistake_has_a_line(file: str, candidate: str) -> None:
    assert all(lines(file, candidate).values()), lines(file, candidate)


def test_each_mistake_of_the_catalogue_has_two_candidates_and_there_are_twenty_triples() -> None:
    shown = [mistake for file, candidate in SINGLE for mistake in PIECES[file][candidate]]
    assert {m for m in MISTAKES if shown.count(m) < 2} == set()
    assert len(TRIPLES) == 20
    assert all(len(PIECES[file][candidate]) == 3 for file, candidate in TRIPLES)


def test_the_lines_of_three_mistakes_at_once() -> None:
    found = {}
    with Session() as session:
        for file, candidate in TRIPLES:
            found |= placed(file, candidate, examine(session, f"{HERE / file}.py:{candidate}"))
    wrong = [name for name, right in found.items() if not right]
    assert len(found) >= TRIPLE_TOLD, sorted(found)
    assert sum(found.values()) >= TRIPLE_LINES, wrong
