"""What the checker found, for people and for programs."""

from __future__ import annotations

import shutil
import textwrap
from collections.abc import Sequence
from dataclasses import asdict, dataclass, field, replace
from typing import Any, Literal

from overt.errors import ArgumentError, OvertError

Kind = Literal["mistake", "convention", "risk", "unknown"]
Outcome = Literal["held", "failed", "not tried"]
# Of what to_dict gives, which programs read: it grows when an entry goes, or comes to mean something else.
VERSION = 3
_HEADS = {"mistake": "wrong", "unknown": "wrong", "risk": "risk", "convention": "convention"}
# Characters of a message of what could not be called.
_MESSAGE = 900
_COLOURS = {"mistake": "31", "unknown": "31", "risk": "33", "convention": "36"}


@dataclass(frozen=True)
class Entry:
    """One thing that can be wrong: the step of attention that it belongs to, and what became of it.

    ``why`` says what was seen, or why nothing could be; ``line`` is that of the candidate's file where the step is
    done; ``mistake`` is the id of the finding that a failure became.
    """

    step: str
    outcome: Outcome
    why: str = ""
    line: int | None = None
    mistake: str | None = None


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

    def __repr__(self) -> str:
        return f"Finding({self.id}, {self.kind})"


@dataclass(frozen=True)
class Report:
    """The verdict on one candidate.

    ``ok`` is whether nothing is wrong in what was tried; what is convention, or goes wrong at the edge only, does not
    count against it.  ``ledger`` says what was tried, and what was not.
    """

    target: str
    convention: dict[str, str]
    findings: list[Finding] = field(default_factory=list)
    ledger: list[Entry] = field(default_factory=list)
    # where the candidate is defined: {"file", "line"}
    place: dict[str, Any] | None = None
    # ids of findings that somebody asked not to be told of
    ignored: tuple[str, ...] = ()

    @property
    def ok(self) -> bool:
        return not any(f.kind in ("mistake", "unknown") for f in self.findings)

    def without(self, ids: Sequence[str]) -> Report:
        """The same report, without the findings of these ids, whose names it keeps."""
        found = {f.id for f in self.findings}
        lost = tuple(dict.fromkeys(name for name in ids if name in found))
        return replace(self, findings=[f for f in self.findings if f.id not in ids], ignored=(*self.ignored, *lost))

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
        tested = [asdict(entry) for entry in self.ledger if entry.outcome != "not tried"]
        return {
            "version": VERSION,
            "target": self.target,
            "ok": self.ok,
            "convention": self.convention,
            "findings": [asdict(finding) for finding in self.findings],
            "ignored": list(self.ignored),
            "tested": tested,
            "not_tested": [{"step": e.step, "why": e.why} for e in self.ledger if e.outcome == "not tried"],
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
        held: dict[str, dict[str, None]] = {}
        untried: dict[str, dict[str, None]] = {}
        failed = {entry.step for entry in self.ledger if entry.outcome == "failed"}
        for entry in self.ledger:
            if entry.outcome == "held" and entry.step not in failed:
                # Of several attentions each has a line.
                whole, _, step = entry.step.rpartition(", ")
                held.setdefault(whole, {})[step] = None
            elif entry.outcome == "not tried":
                untried.setdefault(entry.step, {})[entry.why] = None
        for title, entries, between in (("tested, and held", held, ", "), ("not tested", untried, "; ")):
            lines += ["", title] if entries else []
            for name, words in entries.items():
                lines += _wrapped(": ".join(filter(None, (name, between.join(filter(None, words))))), width, "    ")
        if self.ignored:
            lines += ["", *_wrapped("ignored, as asked: " + ", ".join(self.ignored), width)]
        return "\n".join(lines)


class CallError(ArgumentError):
    """No call of the candidate was found that works: nothing is said of it but what was tried."""

    kind = "call"

    def __init__(self, message: str) -> None:
        super().__init__(brief(message, _MESSAGE))


class UnattendedError(CallError):
    """The candidate could be called, and no attention was found inside: the caller, and what it was called with."""

    def __init__(self, message: str, *ran: Any) -> None:
        super().__init__(message)
        self.ran = ran


class CheckerError(OvertError):
    """The checker itself is at fault, or what the candidate wrote into its pipe: nothing is said of the candidate."""

    kind = "checker"

    def __init__(self, message: str) -> None:
        super().__init__(brief(message, _MESSAGE))


@dataclass(frozen=True)
class Failure:
    """A target of which nothing can be said, and why: the words of the error that ``check`` raised."""

    target: str
    # "target" where it could not be found or loaded, "call" where no call was found, "checker" where that is at fault
    kind: str
    message: str

    @staticmethod
    def of(target: str, error: OvertError) -> Failure:
        return Failure(target, getattr(error, "kind", "target"), " ".join(str(error).split()))

    def to_dict(self) -> dict[str, Any]:
        """For ``--json``."""
        error = {"kind": self.kind, "message": self.message}
        return {"version": VERSION, "target": self.target, "ok": None, "error": error}


def brief(text: str, most: int) -> str:
    """A text in one line, without its middle where it is longer than that."""
    line = " ".join(text.split())
    return line if len(line) <= most else f"{line[: most - most // 3 - 3]} … {line[-(most // 3) :]}"


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
