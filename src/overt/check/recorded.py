"""What of the candidate's recorded calls, judged step by step, becomes a finding."""

from __future__ import annotations

import linecache
from dataclasses import replace
from typing import Any

from overt.check.findings import Findings
from overt.check.ledger import Entry
from overt.check.mistakes import MISTAKES


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


def tell(findings: Findings, name: str, fault: dict[str, Any]) -> None:
    """One step that failed as a finding."""
    if name in MISTAKES:
        findings.add(name, kind=fault["kind"])
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
