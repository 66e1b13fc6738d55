"""Candidates that are right as they stand, and wrong with one text in the place of another."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping

import pytest

from overt.check.report import Report

# A candidate, what is right in its source, what is wrong in its place, and what is then told: an id, or ids with a text
# that is part of the line where each stands.  A comment "# here" in what is wrong marks the line of an id alone.
Swap = tuple[str, str, str, "str | Mapping[str, str]"]
Check = Callable[[str, str], Report]


def right_and_wrong(
    source: str | Mapping[str, str], swaps: Iterable[Swap], right: Iterable[str] = ()
) -> tuple[Callable[[Check, str], None], Callable[[Check, str, str, str, str | Mapping[str, str]], None]]:
    """Two tests, by the fixture ``check``: each candidate is called right, and told exactly its mistakes once swapped.

    source: the source of all, or of each by its name.  right: more that are right.
    """
    swaps = list(swaps)

    def text(name: str) -> str:
        return source if isinstance(source, str) else source[name]

    @pytest.mark.parametrize("name", dict.fromkeys((*right, *(name for name, *_ in swaps))))
    def test_right(check: Check, name: str) -> None:
        report = check(name, text(name))
        assert report.ok, str(report)

    @pytest.mark.parametrize(("name", "was", "wrong", "expected"), swaps)
    def test_wrong(check: Check, name: str, was: str, wrong: str, expected: str | Mapping[str, str]) -> None:
        assert text(name).count(was) == 1
        report = check(name, text(name).replace(was, wrong))
        here = "# here" if "# here" in wrong else ""
        lines = {expected: here} if isinstance(expected, str) else expected
        found = [f for f in report.findings if f.kind in ("mistake", "unknown") or f.id in lines]
        assert sorted(f.id for f in found) == sorted(lines), str(report)
        for finding in found:
            assert lines[finding.id] in (finding.where or {"text": ""})["text"], str(report)

    return test_right, test_wrong
