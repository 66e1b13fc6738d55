"""Collects findings: their text, the line to look at, and the smallest input that shows them."""

from __future__ import annotations

import linecache
import re
from dataclasses import replace
from typing import TYPE_CHECKING, Any

import numpy as np

from overt.check.attention import Size, UnknownError, difference
from overt.check.ledger import Entry
from overt.check.mistakes import MISTAKES, name_of
from overt.check.report import Finding, Kind, Report
from overt.check.steps import STEPS

if TYPE_CHECKING:
    from overt.check.calling import Calling
    from overt.check.search import Match, Trial


# What is looked for in these is rather the last such line.
_LAST = ("merge_view", "returns_scores", "luong_no_tanh_out")


# What is found of a candidate beside the mistakes of the catalogue.
SYMPTOMS = {
    "raises": "It raises on a call that should work: the one that was given, or one that nothing in the call explains.",
    "hangs": "A call does not come back within --timeout.",
    "crashes": "A call ends the process with a signal, or writes into the pipe of the checker.",
    "exits": "A call ends the process.",
    "memory": "A call asks for more memory than --memory.",
    "memory_quadratic": "It holds T × S numbers at once, as textbook attention does: 256 MiB a head at 8,192 tokens.",
    "prints": "It prints while it computes.",
    "state": "A call changes what the next one returns.",
    "global_read": "It reads a global of the same meaning instead of its argument.",
    "dtype_changed": "Another dtype comes out than went in.",
    "gradient_cut": "No gradient reaches an input.",
    "gradient_wrong": "A gradient is not the slope of the output.",
    "decode_differs": "Decoding with a cache does not give what all tokens at once give.",
    "removed_name": "It uses a name that NumPy 2 does not have.",
    "unknown": "It is wrong, and no known mistake gives its numbers.",
}


class Findings:
    """The findings on one candidate, one for each id."""

    def __init__(self, description: dict[str, Any]) -> None:
        self.description = description
        self.found: dict[str, Finding] = {}
        self.convention: dict[str, str] = {}
        self.ledger: list[Entry] = []
        # Whether its numbers are those of no variant, and no step of attention is seen to be wrong.
        self.unexplained = False

    def add(
        self,
        name: str,
        *,
        kind: Kind | None = None,
        certain: bool = True,
        message: str | None = None,
        mend: str | None = None,
        diagnosis: Calling | None = None,
        line: int | None = None,
        example: dict[str, Any] | None = None,
        also: tuple[str, ...] = (),
        look: str = "",
    ) -> None:
        """One finding; what the catalogue says of its id, where it says something."""
        known = MISTAKES.get(name)
        made: Kind = kind or (known.kind if known else "unknown")  # type: ignore[assignment]
        if name in self.found and self.found[name].kind == "mistake":
            return
        self.found[name] = Finding(
            name,
            made,
            certain,
            message or (known.says if known else name),
            mend if mend is not None else (known.mend if known else ""),
            known.evidence if known else "",
            example,
            self.where(name, line, look or (known.look if known else "")),
            also,
        )

    def clear(self) -> None:
        """Forget all."""
        self.found, self.convention, self.ledger = {}, {}, []

    def entered(self, step: str, why: str = "", *, tried: bool = True) -> None:
        """One step that was tried and held, or failed where a finding says so; or that was not tried."""
        names = {name_of(option) for option in STEPS.get(step, ())} | {step}
        wrong = [f for f in self.found.values() if f.id in names and f.kind in ("mistake", "unknown")]
        if not tried:
            self.ledger.append(Entry(step, "not tried", why))
        elif wrong:
            line = wrong[0].where["line"] if wrong[0].where else None
            self.ledger.append(Entry(step, "failed", why or wrong[0].message, line, wrong[0].id))
        else:
            self.ledger.append(Entry(step, "held", why))

    def report(self, target: str) -> Report:
        """All of it.  What was found in no step that was entered is a failure of its own."""
        known = {entry.mistake for entry in self.ledger}
        rest = [f for f in self.found.values() if f.kind in ("mistake", "unknown") and f.id not in known]
        failed = [Entry(f.id, "failed", f.message, f.where["line"] if f.where else None, f.id) for f in rest]
        file = self.description["file"]
        place = {"file": file, "line": max(1, self.description["line"])} if file else None
        return Report(target, self.convention, list(self.found.values()), [*failed, *self.ledger], place)

    def option(
        self,
        diagnosis: Calling,
        option: str,
        also: tuple[str, ...],
        found: list[Match],
        form: Any = None,
        kind: Kind | None = None,
    ) -> None:
        """A variant of the reference that gives the candidate's numbers."""
        name = name_of(option)
        mine = [m for m in found if option in m.choice.values()]
        choice = (mine or found)[0].choice
        self.add(
            name,
            kind=kind,
            certain=not also,
            diagnosis=diagnosis,
            also=also,
            example=smallest(diagnosis, form or (mine or found)[0].form, choice),
        )

    def unknown(self, diagnosis: Calling, trials: list[Trial], when: str = "", form: Any = None) -> None:
        """Wrong, and no variant says why."""
        form = form or diagnosis.form
        good = [t for t in trials if t.outcome.error is None]
        if not good:
            return
        case, outcome = good[0]
        example = None
        for choice in diagnosis.choices[:1]:
            parts = diagnosis.attention.predict(form, case, choice)
            seen = diagnosis.attention.observed(form, parts, outcome)
            if seen is not None:
                expected = parts.weights if form.returns == "weights" else parts.output
                example = {
                    "expected": _numbers(expected.reshape(-1)[:6]) + " …",
                    "actual": _numbers(seen.reshape(-1)[:6]) + " …",
                }
        self.add(
            "unknown",
            kind="unknown",
            certain=True,
            message=f"It is wrong{' ' + when if when else ''}, but no known mistake, and no pair of them, "
            "gives its numbers.",
            mend="Compare its steps with overt.trace(q, k, v).",
            example=example,
        )

    def raised(self, diagnosis: Calling | None, error: dict[str, Any]) -> None:
        """It raises."""
        names = {
            "SystemExit": ("exits", "It ends the program.", "Raise an exception, or return."),
            "MemoryError": (
                "memory",
                "It asks for more memory than it was given.",
                "Raise the limit with --memory, or allocate less.",
            ),
        }
        name, message, mend = names.get(
            error["type"],
            ("raises", f"It raises {error['type']}: {error['message']}", "Make it run on the input below."),
        )
        self.add(
            name,
            kind="unknown",
            message=message,
            mend=mend if name != "raises" else "",
            line=error["line"],
            look="(?!)",
        )

    def where(self, name: str, line: int | None, look: str) -> dict[str, Any] | None:
        """The line to look at: the one given, or the last one of the code that contains what the mistake is made of."""
        source, first = self.description["source"], self.description["line"]
        lines = source.splitlines()
        if line is None and look:
            code = [
                (n, text)
                for n, text in enumerate(lines)
                if not text.strip().startswith(("#", "def ", '"""', "class ", "@"))
            ]
            hits = [n for n, text in code if re.search(look.split("|")[0], text)] or [
                n for n, text in code if re.search(look, text)
            ]
            line = hits[-1 if name in _LAST else 0] + first if hits else None
        file = self.description["file"]
        if line is None or not file:
            return None
        inside = 0 <= line - first < len(lines)
        text = lines[line - first] if inside else linecache.getline(file, line)
        return {"file": file, "line": line, "text": text.strip()} if text.strip() else None


def smallest(diagnosis: Calling, form: Any, choice: dict[str, str]) -> dict[str, Any] | None:
    """The smallest of a few inputs on which a variant and the reference differ, with whole numbers."""
    attention = diagnosis.attention
    if attention.instance is not None and attention.instance.projections is not None:
        return _first_numbers(diagnosis, form, choice)
    masked = "mask" in choice
    for size in (
        Size(1, 1, 1, 1, 2, 2),
        Size(1, 1, 1, 2, 2, 2),
        Size(1, 2, 2, 2, 2, 2),
        Size(2, 2, 2, 2, 2, 2),
        Size(2, 2, 2, 2, 3, 2),
        Size(2, 3, 3, 3, 3, 2),
    ):
        try:
            extra: dict[str, Any] = attention.mask(form, size) if masked else {}
            if {"align", "diagonal", "causal"} & set(choice) or form.causal:
                extra["causal"] = True
            if "cap" in choice:
                extra["cap"] = 0.7
            if "window" in choice:
                return None
            case = attention.case(form, size, **extra)
            random = np.random.default_rng(1)
            q = random.integers(-2, 3, case.q.shape).astype(float)
            k = q if case.k is case.q else random.integers(-2, 3, case.k.shape).astype(float)
            v = k if case.v is case.k else random.integers(0, 10, case.v.shape).astype(float)
            case = replace(case, q=q, k=k, v=v)
            right, wrong = (attention.predict(form, case, c) for c in ({}, choice))
            call = attention.call(form, case)
            seen = attention.observed(form, wrong, attention.run([call])[0])
        except (ValueError, IndexError, ZeroDivisionError, UnknownError):
            continue
        name = "weights" if form.returns == "weights" else "output"
        expected = getattr(right, name)
        if seen is None or difference(seen, getattr(wrong, name)) > 1e-4 or not difference(seen, expected) > 1e-3:
            continue
        shown = {key: _numbers(array) for key, array in call[1].items() if array.size <= 36}
        return {
            **shown,
            "expected": _numbers(expected.reshape(-1, expected.shape[-1])),
            "actual": _numbers(seen.reshape(-1, seen.shape[-1])),
        }
    return None


def _first_numbers(diagnosis: Calling, form: Any, choice: dict[str, str]) -> dict[str, Any] | None:
    """The fewest tokens on which an instance whose parameters are random differs, and its first numbers there."""
    attention = diagnosis.attention
    if "group" in choice:
        return None
    for B, T, S in ((1, 1, 1), (1, 2, 2), (2, 2, 2), (2, 5, 5), (2, 5, 7)):
        size = Size(B=B, T=T, S=S)
        try:
            extra: dict[str, Any] = attention.mask(form, size) if "mask" in choice and form.masked else {}
            if {"align", "diagonal", "causal"} & set(choice) or form.causal:
                extra["causal"] = True
            case = attention.case(form, size, **extra)
            right, wrong = (attention.predict(form, case, c) for c in ({}, choice))
            seen = attention.observed(form, wrong, attention.one(form, case))
        except (ValueError, IndexError, ZeroDivisionError, UnknownError):
            continue
        expected = right.output
        if seen is None or expected.ndim != 3 or difference(seen, wrong.output) > 1e-4:
            continue
        gap = np.abs(np.where(np.isfinite(seen), seen, np.inf) - expected).max(-1)
        if not gap.max() > 1e-3 * max(1.0, float(np.abs(expected).max())):
            continue
        b, t = np.unravel_index(np.argmax(gap), gap.shape)
        given = (case.q,) if case.k is case.q else (case.q, case.k)
        keep = case.keep
        hidden = (
            {"may see": _numbers(keep[b % len(keep), 0, t % keep.shape[2]].astype(int))} if keep is not None else {}
        )
        return {
            "input": f"random numbers {', '.join(str(x.shape) for x in given)}, parameters too",
            **hidden,
            "query": f"sample {b}, position {t}",
            "expected": _numbers(expected[b, t, :4]) + " …",
            "actual": _numbers(seen[b, t, :4]) + " …",
        }
    return None


def _numbers(array: np.ndarray) -> str:
    squeezed = array.reshape([n for n in array.shape if n > 1] or [1])
    with np.errstate(all="ignore"):
        return (
            str(np.array2string(squeezed, precision=4, suppress_small=True, separator=", "))
            .replace(" ", "")
            .replace(",", ", ")
            .replace("\n", "\n")
        )
