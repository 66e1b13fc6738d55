"""Collects findings: their text, the line to look at, and the smallest input that shows them."""

from __future__ import annotations

import linecache
import re
from typing import Any

from overt.check.ledger import Entry
from overt.check.mistakes import MISTAKES, SYMPTOMS
from overt.check.report import Finding, Kind, Report

# What is looked for in these is rather the last such line.
_LAST = ("merge_view", "returns_scores", "luong_no_tanh_out")


class Findings:
    """The findings on one candidate, one for each id."""

    def __init__(self, description: dict[str, Any]) -> None:
        self.description = description
        self.found: dict[str, Finding] = {}
        self.convention: dict[str, str] = {}
        self.ledger: list[Entry] = []

    def add(
        self,
        name: str,
        *,
        kind: Kind | None = None,
        certain: bool = True,
        message: str | None = None,
        mend: str | None = None,
        line: int | None = None,
        example: dict[str, Any] | None = None,
        look: str = "",
    ) -> None:
        """One finding; what the catalogue says of its id, where it says something."""
        known = MISTAKES.get(name) or SYMPTOMS[name]
        made: Kind = kind or known.kind  # type: ignore[assignment]
        if name in self.found and self.found[name].kind == "mistake":
            return
        self.found[name] = Finding(
            name,
            made,
            certain,
            message or known.says,
            known.mend if mend is None else mend,
            known.evidence,
            example,
            self.where(name, line, look or known.look),
        )

    def clear(self) -> None:
        """Forget all."""
        self.found, self.convention, self.ledger = {}, {}, []

    def entered(self, step: str, why: str = "", *, tried: bool = True) -> None:
        """One step that was tried and held, or that was not tried."""
        self.ledger.append(Entry(step, "held" if tried else "not tried", why))

    def report(self, target: str) -> Report:
        """All of it.  What was found in no step that was entered is a failure of its own."""
        known = {entry.mistake for entry in self.ledger}
        rest = [f for f in self.found.values() if f.kind in ("mistake", "unknown") and f.id not in known]
        failed = [Entry(f.id, "failed", f.message, f.where["line"] if f.where else None, f.id) for f in rest]
        file = self.description["file"]
        place = {"file": file, "line": max(1, self.description["line"])} if file else None
        return Report(target, self.convention, list(self.found.values()), [*failed, *self.ledger], place)

    def raised(self, error: dict[str, Any]) -> None:
        """It raises."""
        name = {"SystemExit": "exits", "MemoryError": "memory"}.get(error["type"], "raises")
        says = f"It raises {error['type']}: {error['message']}" if name == "raises" else None
        self.add(name, message=says, line=error["line"])

    def where(self, name: str, line: int | None, look: str) -> dict[str, Any] | None:
        """The line to look at: the one given, or the last one of the code that contains what the mistake is made of."""
        source, first, file = (self.description[what] for what in ("source", "line", "file"))
        lines = source.splitlines()
        if line is None and look:
            # Its own source before the rest of the file, and in each what it is rather made of.
            texts = [(first, lines), (1, linecache.getlines(file) if file else [])]
            found = (
                [n + start for n, text in enumerate(some)
                 if not text.strip().startswith(("#", "def ", '"""', "class ", "@")) and re.search(pattern, text)]
                for start, some in texts for pattern in (look.split("|")[0], look)
            )  # fmt: skip
            hits = next(filter(None, found), [])
            line = hits[-1 if name in _LAST else 0] if hits else None
        if line is None or not file:
            return None
        inside = 0 <= line - first < len(lines)
        text = lines[line - first] if inside else linecache.getline(file, line)
        return {"file": file, "line": line, "text": text.strip()} if text.strip() else None
