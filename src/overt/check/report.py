"""What the checker found, for people and for programs."""

from __future__ import annotations

import shutil
import textwrap
from dataclasses import asdict, dataclass, field
from typing import Any, Literal
from xml.sax.saxutils import escape, quoteattr

Kind = Literal["mistake", "convention", "risk", "unknown"]
_HEADS = {"mistake": "wrong", "unknown": "wrong", "risk": "risk", "convention": "convention"}
_COLOURS = {"mistake": "31", "unknown": "31", "risk": "33", "convention": "36"}


@dataclass(frozen=True)
class Finding:
    """One thing found: its id in the catalogue (or the name of the symptom), what it means and how to mend it."""

    id: str
    kind: Kind
    certain: bool
    message: str
    mend: str = ""
    evidence: str = ""
    # the smallest input found that shows it: what was given, what should have come out, what did
    example: dict[str, Any] | None = None
    # where to look: {"file", "line", "text"}
    where: dict[str, Any] | None = None
    # mistakes that no input tells from this one
    also: tuple[str, ...] = ()

    def __repr__(self) -> str:
        return f"Finding({self.id}, {self.kind})"


@dataclass(frozen=True)
class Report:
    """The verdict on one candidate.

    ``ok`` is whether nothing is wrong; what is convention, or goes wrong at the edge only, does not count against it.
    """

    target: str
    convention: dict[str, str]
    findings: list[Finding] = field(default_factory=list)

    @property
    def ok(self) -> bool:
        return not any(f.kind in ("mistake", "unknown") for f in self.findings)

    @property
    def verdict(self) -> str:
        """One line."""
        wrong = [f for f in self.findings if f.kind == "mistake"]
        if wrong:
            return f"{self.target} is wrong: " + ", ".join(f.id for f in wrong)
        if not self.ok:
            return f"{self.target} is wrong, but I don't know why"
        notes = sum(1 for _ in self.findings)
        return f"{self.target} is right" + (f" ({notes} thing{'s' * (notes > 1)} to know)" if notes else "")

    def to_dict(self) -> dict[str, Any]:
        """For ``--json``."""
        return {
            "ok": self.ok,
            "convention": self.convention,
            "findings": [asdict(finding) for finding in self.findings],
        }

    def __repr__(self) -> str:
        return f"Report({self.verdict}): print it to read all of it"

    def __str__(self) -> str:
        return self.text()

    def text(self, *, width: int | None = None, colour: bool = False) -> str:
        """For people: the verdict first, then what is wrong, then what is only to know."""
        width = max(40, min(width or shutil.get_terminal_size((100, 24)).columns, 120))

        def paint(text: str, code: str) -> str:
            return f"\x1b[{code}m{text}\x1b[0m" if colour else text

        lines = [paint(line, "1;32" if self.ok else "1;31") for line in textwrap.wrap(_printable(self.verdict), width)]
        for finding in sorted(self.findings, key=lambda f: list(_HEADS).index(f.kind)):
            sure = "" if finding.certain else ", not certain"
            lines += ["", paint(f"{finding.id}  ({_HEADS[finding.kind]}{sure})", _COLOURS[finding.kind])]
            lines += _wrapped(finding.message, width)
            if finding.also:
                lines += _wrapped("No input tells it from: " + ", ".join(finding.also) + ".", width)
            for name, value in (finding.example or {}).items():
                lines += _shown(name, value, width)
            if finding.where:
                place = f"{finding.where['file']}:{finding.where['line']}"
                lines += _wrapped(f"look at   {place}", width)
                lines += [f"            {_printable(finding.where['text']).strip()[: width - 12]}"]
            if finding.mend:
                lines += _wrapped("mend      " + finding.mend, width, "            ")
            if finding.evidence:
                lines += ["  seen in   " + finding.evidence]
        if self.convention:
            lines += ["", "convention"]
            for name, text in self.convention.items():
                lines += _wrapped(f"{name}: {text}", width, "    ")
        return "\n".join(lines)


def _wrapped(text: str, width: int, hanging: str = "  ") -> list[str]:
    return textwrap.wrap(
        _printable(text), width, initial_indent="  ", subsequent_indent=hanging, break_on_hyphens=False
    )


def _printable(text: str) -> str:
    """Without what would steer a terminal: names, lines and the words of exceptions are the candidate's."""
    return "".join(c if c.isprintable() else " " if c.isspace() else "�" for c in text)


def _shown(name: str, value: Any, width: int) -> list[str]:
    rows = [_printable(row) for row in str(value).splitlines()] or [""]
    if len(rows) == 1 and len(rows[0]) + 12 <= width:
        return [f"  {name:9s} {rows[0]}"]
    return [f"  {name:9s} {rows[0][: width - 12]}", *(f"{'':12s}{row[: width - 12]}" for row in rows[1:])]


def junit(reports: list[Report]) -> str:
    """JUnit XML: one test case a candidate, failed where something is wrong."""
    failed = sum(not report.ok for report in reports)
    lines = [
        '<?xml version="1.0" encoding="utf-8"?>',
        f'<testsuite name="overt check" tests="{len(reports)}" failures="{failed}" errors="0">',
    ]
    for report in reports:
        lines.append(f'  <testcase classname="overt.check" name={quoteattr(_clean(report.target))}>')
        lines += [
            f"    <failure type={quoteattr(f.id)} message={quoteattr(_clean(f.message))}>"
            f"{escape(_clean(f.mend))}</failure>"
            for f in report.findings
            if f.kind in ("mistake", "unknown")
        ]
        lines += [f"    <system-out>{escape(_clean(report.text(width=100)))}</system-out>", "  </testcase>"]
    return "\n".join([*lines, "</testsuite>", ""])


def _clean(text: str) -> str:
    """Without the control characters that XML forbids."""
    return "".join(
        c for c in text if c in "\n\t" or (c >= " " and c not in "\ufffe\uffff" and not "\ud800" <= c <= "\udfff")
    )
