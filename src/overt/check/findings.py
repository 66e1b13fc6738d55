"""Collects findings: their text, the line to look at, and the smallest input that shows them."""

from __future__ import annotations

import linecache
import re
from collections.abc import Sequence
from dataclasses import replace
from typing import Any

from overt.check.mistakes import MISTAKES, SYMPTOMS
from overt.check.report import Entry, Finding, Kind, Report
from overt.check.text.lines import (
    called_at,
    calls_of,
    counted_at,
    decided,
    documented,
    function_at,
    kept_in,
    keyed,
    made_in,
    repeated_at,
)
from overt.check.text.roles import Argument

# What is looked for in these is rather the last such line.
_LAST = ("merge_view", "returns_scores", "luong_no_tanh_out")
# What is wrong in these is rather where it was seen than where what is used there was made.
_USED = ("scale_inverted", "scale_missing", "scale_double", "mask_inverted", "softmax_partial_max")

# What is wrong in these is what a call does, or what one does to the next, and no constructor.
_LATER = ("cache_key", "dropout_stuck_off", "inplace", "returns_scores")
_MODES = ("train", "eval")
# What is wrong in these is what a kernel is given.
_GIVEN = {"mask_inverted": "mask", "dropout_eval": "dropout"}
# What is wrong in these is an order, which whoever calls a step decides.
_ORDERED = ("softcap_after_mask", "mask_after_softmax")
# What is wrong in these is made of sizes alone.
_MADE = ("alibi_slopes", "pe_exponent")
# What lays the angles of pairs beside each other.
_LAID = r"repeat|cat|stack|tile"
# What is wrong in these compares, there or in what is called there.
_COMPARES = "window_off_by_one", re.compile(r"[<>]|tri[lu]")


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

    def entered(self, step: str, why: str = "", *, tried: bool = True, failed: str | None = None) -> None:
        """One step that was tried and held, that failed by a mistake, or that was not tried."""
        self.ledger.append(Entry(step, "failed" if failed else "held" if tried else "not tried", why, mistake=failed))

    def untried(self, argument: Argument) -> None:
        """An argument that means nothing in any call, once; where it has no role, somebody may tell it."""
        step, told = f"argument {argument.name}", argument.role or isinstance(argument.default, str)
        why = "it was never passed" if told else f"nothing says what it is: --argument {argument.name}=ROLE does"
        if not any(entry.step == step for entry in self.ledger):
            self.entered(step, why, tried=False)

    def guessed(self, argument: Argument) -> None:
        """An argument of which nothing says what it is, and which was passed as what runs."""
        why = f"nothing says what it is, so it was found by trying: --argument {argument.name}=ROLE says it"
        self.entered(f"argument {argument.name}", why, tried=False)

    @property
    def wrong(self) -> bool:
        """Whether something is wrong, and not only risky or unusual."""
        return any(finding.kind in ("mistake", "unknown") for finding in self.found.values())

    @property
    def judged(self) -> bool:
        """Whether any step was tried, beside that there are scores of heads, or something is wrong."""
        scored = any(entry.step.endswith("scores") for entry in self.ledger)
        tried = (entry.step for entry in self.ledger if entry.outcome != "not tried")
        return self.wrong or any(not step.endswith(("scores", "split") if scored else "scores") for step in tried)

    def at(self, step: str) -> int | None:
        """The line of a step that was recorded."""
        return next((entry.line for entry in self.ledger if entry.line and entry.step.endswith(step)), None)

    def conclude(self, told: Sequence[dict[str, Any]]) -> None:
        """Findings and ledger of recordings: what is known, or else what is only located."""
        faults: dict[str, dict[str, Any]] = {}
        for fault in (fault for one in told for fault in one["faults"]):
            faults.setdefault(fault["mistake"], fault)
        known = {name: fault for name, fault in faults.items() if name != "unknown"}
        # What is a convention explains nothing that is wrong.
        explains = any((fault["kind"] or MISTAKES[name].kind) != "convention" for name, fault in known.items())
        for fault in (known if explains else faults).values():
            self.tell(fault)
        self.enter(told)

    def tell(self, fault: dict[str, Any]) -> None:
        """One step that failed as a finding."""
        if fault["mistake"] in MISTAKES:
            self.add(fault["mistake"], kind=fault["kind"])
        else:
            says = f"Up to this line it is attention; here, at the step {fault['step']}, it computes something else. "
            self.add(
                "unknown", message=says + fault["says"], mend="Compare its steps with those of overt.trace(q, k, v)."
            )
        self._locate(fault["mistake"], fault)

    def enter(self, told: Sequence[dict[str, Any]]) -> None:
        """What each step of recordings came to, once; one that failed in any recording has failed."""
        weak = next((one["facts"]["fill"] for one in told if one["facts"].get("fill")), None)
        if weak is not None and "mask_fill_too_small" not in self.found:
            self.add("mask_fill_too_small", kind="risk")
            self._locate("mask_fill_too_small", weak)
        best: dict[tuple[str, str], dict[str, Any]] = {}
        order = ("failed", "held", "not tried")
        for entry in (entry for one in told for entry in one["ledger"]):
            key = entry["step"], entry["mistake"] or ""
            if key not in best or order.index(entry["outcome"]) < order.index(best[key]["outcome"]):
                best[key] = entry
        self.ledger += [Entry(**entry) for entry in best.values() if entry["mistake"] in (None, "", *self.found)]

    def _locate(self, name: str, fault: dict[str, Any]) -> None:
        """The line of the step that failed, and its numbers where there are no better ones."""
        found, where = self.found[name], self.found[name].where
        if fault["line"] is not None:
            line = decided(fault["file"], fault["line"], fault.get("step", "")) if name not in _USED else fault["line"]
            text = linecache.getline(fault["file"], line).strip()
            where = {"file": fault["file"], "line": line, "text": text}
        if where is not None and name in _ORDERED:
            told = self.description
            line = called_at(where["file"], where["line"], told["method"] or told["name"], told["name"])
            where = where | {"line": line, "text": linecache.getline(where["file"], line).strip()}
        if where is not None and name == "shared_projection":
            line = repeated_at(where["file"], where["line"])
            where = where | {"line": line, "text": linecache.getline(where["file"], line).strip()}
        if where is not None and name == "rope_layout" and not re.search(_LAID, where["text"]):
            # Tables that are kept were laid before they were.
            line = kept_in(where["file"], where["line"], _LAID)
            where = where | {"line": line, "text": linecache.getline(where["file"], line).strip()}
        if where is not None and name in _MADE:
            # It was made by what is called there.
            line = made_in(where["file"], where["line"], MISTAKES[name].look)
            where = where | {"line": line, "text": linecache.getline(where["file"], line).strip()}
        example = found.example
        if example is None and fault["expected"]:
            example = {name: fault[name] for name in ("expected", "actual") if fault[name]}
        self.found[name] = replace(found, where=where, example=example)

    def report(self, target: str) -> Report:
        """All of it.  What was found in no step that was entered is a failure of its own."""
        known = {entry.mistake for entry in self.ledger}
        rest = [f for f in self.found.values() if f.kind in ("mistake", "unknown") and f.id not in known]
        failed = [Entry(f.id, "failed", f.message, f.where["line"] if f.where else None, f.id) for f in rest]
        file = self.description["file"]
        place = {"file": file, "line": max(1, self.description["line"])} if file else None
        # What was tried in one call is not said to be untried in another.
        tried = {entry.step for entry in self.ledger if entry.outcome != "not tried"}
        ledger = [e for e in self.ledger if e.outcome != "not tried" or e.step not in tried]
        return Report(target, self.convention, list(self.found.values()), [*failed, *ledger], place)

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
            reached = {text.strip() for text in self.description.get("reached", "").splitlines()}
            # Of the file, what it comes to, and what stands in no function, before all else.
            whole = linecache.getlines(file or "")
            near = [text if text[:1].strip() or text.strip() in reached else "" for text in whole]
            texts = [(first, lines), (1, near), (1, whole)]
            told = documented(file) if file else set()
            found = [
                [n + start for n, text in enumerate(some) if n + start not in told
                 and not text.strip().startswith(("#", "def ", '"""', "class ", "@", "raise ", "assert "))
                 and re.search(pattern, text.partition("#")[0])]
                for start, some in texts for pattern in (look.split("|")[0], look)
            ]  # fmt: skip
            every = [hits for hits in found if hits]
            if name in _LATER and file:
                at = {n: function_at(file, n) for n in set().union(*every)}
                own = self.description["method"] or self.description["name"]
                every, onward = [], calls_of(file, own)
                for part in (found[:2], found[2:4], found[4:]):
                    called = [[n for n in hits if at[n] in names] for names in ({own}, onward) for hits in part]
                    rest = [[n for n in hits if at[n] != "__init__"] for hits in part]
                    # What changes the mode changes what is dropped.
                    modes = [[n for n in hits if at[n] in _MODES] for hits in part if name == "dropout_stuck_off"]
                    every += [hits for hits in (*modes, *called, *rest, *part) if hits]
            hits = every[0] if every else []
            line = hits[-1 if name in _LAST else 0] if hits else None
            line = keyed(file, line) if name == "cache_key" and file and line else line
        if line is None or not file:
            return None
        line = decided(file, line, _GIVEN[name]) if name in _GIVEN else line
        # What is turned by the wrong positions is wrong where these are counted.
        line = counted_at(file, line) if name == "rope_offset" else line
        if name == _COMPARES[0] and not _COMPARES[1].search(linecache.getline(file, line)):
            made = decided(file, line, "causal")
            made = made if _COMPARES[1].search(linecache.getline(file, made)) else line
            line = made_in(file, made, _COMPARES[1].pattern)
        inside = 0 <= line - first < len(lines)
        text = lines[line - first] if inside else linecache.getline(file, line)
        return {"file": file, "line": line, "text": text.strip()} if text.strip() else None
