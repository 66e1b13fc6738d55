"""How often ``overt check`` points at the line that is wrong.

tests/check_candidates/lines.json has, for each candidate and mistake, pieces of the lines that are a right place:
a line counts if it holds one of them and lies in the candidate, or in what the candidate names in its file.
The thresholds are what was measured when they were written; whoever betters the lines raises them.
"""

from __future__ import annotations

import ast
import json
from pathlib import Path

import pytest

from overt.check.checking import examine
from overt.check.mistakes import MISTAKES
from overt.check.session import Session

HERE = Path(__file__).parent / "check_candidates"
PIECES: dict[str, dict[str, dict[str, list[str]]]] = json.loads((HERE / "lines.json").read_text())
SINGLE = [(file, candidate) for file in PIECES if file != "triples" for candidate in PIECES[file]]
TRIPLES = [("triples", candidate) for candidate in PIECES["triples"]]
# With a right line: of 138 mistakes, nearly all alone, and of 60 in triples; and how many of the 60 are told at all.
SINGLE_LINES = 120
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


def measured(candidates: list[tuple[str, str]]) -> dict[tuple[str, str, str], bool]:
    """For each mistake that was told whether its line is right."""
    found = {}
    with Session() as session:
        for file, candidate in candidates:
            report = examine(session, f"{HERE / file}.py:{candidate}")
            expected = lines(file, candidate)
            for finding in report.findings:
                if finding.id in expected:
                    right = finding.where is not None and finding.where["line"] in expected[finding.id]
                    found[file, candidate, finding.id] = right
    return found


@pytest.mark.parametrize(("file", "candidate"), SINGLE + TRIPLES)
def test_each_mistake_has_a_line(file: str, candidate: str) -> None:
    assert all(lines(file, candidate).values()), lines(file, candidate)


def test_each_mistake_of_the_catalogue_has_two_candidates_and_there_are_twenty_triples() -> None:
    shown = [mistake for file, candidate in SINGLE for mistake in PIECES[file][candidate]]
    assert {m for m in MISTAKES if shown.count(m) < 2} == set()
    assert len(TRIPLES) == 20
    assert all(len(PIECES[file][candidate]) == 3 for file, candidate in TRIPLES)


def test_the_lines_of_single_mistakes() -> None:
    found = measured(SINGLE)
    wrong = [name for name, right in found.items() if not right]
    assert sum(found.values()) >= SINGLE_LINES, wrong


def test_the_lines_of_three_mistakes_at_once() -> None:
    found = measured(TRIPLES)
    wrong = [name for name, right in found.items() if not right]
    assert len(found) >= TRIPLE_TOLD, sorted(found)
    assert sum(found.values()) >= TRIPLE_LINES, wrong
