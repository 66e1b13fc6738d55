"""What of the candidate's recorded calls, judged step by step, becomes a finding."""

from __future__ import annotations

import linecache
from collections.abc import Iterable
from dataclasses import replace
from typing import Any

from overt.check.attention import SQUARE, WIDE, Form, UnknownError
from overt.check.diagnosis import Diagnosis
from overt.check.findings import Findings
from overt.check.forms import PuzzledError
from overt.check.ledger import Entry
from overt.check.mistakes import MISTAKES


def consult(diagnosis: Diagnosis, forms: Iterable[Form] = ()) -> bool:
    """Record the calls that work, and let what was seen decide where the numbers of the whole could not.

    forms: the ways to call where no diagnosis was made.  Returns whether an attention was seen.
    """
    told = [one for one in _runs(diagnosis, list(forms)) if one.get("cores")]
    findings = diagnosis.findings
    if not told and findings.found.keys() == {"unknown"}:
        # Numbers unlike the reference's prove nothing of what shows no attention.
        raise PuzzledError(f"no attention was found in what {diagnosis.interface.name} computes")
    if not told:
        findings.ledger.append(Entry("steps", "not tried", "no attention was found in what it computes"))
        return False
    if any(one["facts"].get("additive") for one in told):
        raise PuzzledError(f"the scores of {diagnosis.interface.name} are sums")
    faults: dict[str, dict[str, Any]] = {}
    for one in told:
        for fault in one["faults"]:
            faults.setdefault(fault["mistake"], fault)
    for name, fault in faults.items():
        if name in findings.found and name != "unknown":
            _locate(findings, name, fault)
    hides = any(one["facts"].get("hidden") or one["facts"].get("mask given") for one in told)
    if hides and "causal_missing" not in faults:
        # Something is hidden, if not all that comes later: what lies behind a prefix, or in other documents.
        findings.found.pop("causal_missing", None)
    located = "unknown" in faults and not any(f.kind == "mistake" for f in findings.found.values())
    if "unknown" in findings.found or located or forms:
        _decide(findings, told, faults)
    enter(findings, told)
    return True


def enter(findings: Findings, told: list[dict[str, Any]]) -> None:
    """What each step came to, once; one that failed in any recording has failed."""
    weak = next((one["facts"]["fill"] for one in told if one["facts"].get("fill")), None)
    if weak is not None and "mask_fill_too_small" not in findings.found:
        findings.add("mask_fill_too_small", kind="risk")
        _locate(findings, "mask_fill_too_small", weak)
    best: dict[tuple[str, str], dict[str, Any]] = {}
    order = ("failed", "held", "not tried")
    for entry in (entry for one in told for entry in one["ledger"]):
        key = entry["step"], entry["mistake"] or ""
        if key not in best or order.index(entry["outcome"]) < order.index(best[key]["outcome"]):
            best[key] = entry
    findings.ledger += [
        Entry(**entry) for entry in best.values() if not entry["mistake"] or entry["mistake"] in findings.found
    ]


def _decide(findings: Findings, told: list[dict[str, Any]], faults: dict[str, dict[str, Any]]) -> None:
    """Mistakes that were seen stand for numbers that nothing explained, and that alone are no evidence of any."""
    numbers = findings.found.pop("unknown", None)
    known = {name: fault for name, fault in faults.items() if name != "unknown"} or faults
    for name, fault in known.items():
        tell(findings, name, fault)
    findings.unexplained = numbers is not None and not known
    if findings.unexplained:
        why = "the output is not the reference's, and no step of attention is seen to be wrong"
        findings.ledger.append(Entry("the whole", "not tried", why))


def tell(findings: Findings, name: str, fault: dict[str, Any]) -> None:
    """One step that failed as a finding."""
    if name in MISTAKES:
        findings.add(name)
    else:
        findings.add(
            "unknown",
            kind="unknown",
            message=f"Up to this line it is attention; here, at the step {fault['step']}, it computes something else. "
            + fault["says"],
            mend="Compare its steps with those of overt.trace(q, k, v).",
        )
    _locate(findings, name, fault)


def _locate(findings: Findings, name: str, fault: dict[str, Any]) -> None:
    """The line of the step that failed, and its numbers where there are no better ones."""
    found = findings.found[name]
    where = found.where
    if fault["line"] is not None:
        text = linecache.getline(fault["file"], fault["line"]).strip()
        where = {"file": fault["file"], "line": fault["line"], "text": text}
    example = found.example
    if example is None and fault["expected"]:
        example = {"expected": fault["expected"], "actual": fault["actual"]}
    findings.found[name] = replace(found, where=where, example=example)


def _runs(diagnosis: Diagnosis, forms: list[Form]) -> list[dict[str, Any]]:
    """What recordings of the calls that work came to: the plain one, those with masks, the causal one."""
    face = diagnosis.interface
    plans: list[tuple[Form, dict[str, Any]]] = [(form, {}) for form in forms or [diagnosis.form]]
    if not forms:
        plans += [(form, {"mask": True}) for form in diagnosis.masked.values()]
        plans += [(diagnosis.form, {"causal": True})] if face.has("causal") else []
    told = []
    for form, extra in plans:
        for size in (SQUARE, WIDE):
            if size is WIDE and (diagnosis.single(form, size) or not diagnosis.wide):
                continue
            features = diagnosis.attention.mask(form, size) if extra.get("mask") else dict(extra)
            causal = True if extra.get("causal") or (form.causal and not face.has("causal")) else None
            try:
                case = diagnosis.attention.case(form, size, **features)
                told.append(diagnosis.attention.one(form, case, record={"causal": causal}).judged)
            except (ValueError, IndexError, UnknownError):
                continue
    return told
