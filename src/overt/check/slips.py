"""Where a mistake was made: the line on which one operator, sign or number makes right what was found wrong.

What a step comes to is seen where it is done, and what made it wrong may stand elsewhere: in a constructor, in a
default, in what a factor is made of.
"""

from __future__ import annotations

import linecache
import time
from collections.abc import Mapping, Sequence
from dataclasses import replace
from typing import Any

from overt.check.asking import Caller, Way
from overt.check.beside import Made
from overt.check.edits import Edit, edited, edits, own
from overt.check.findings import Findings

# Seconds in which changes are tried.
_SECONDS = 6.0


def locate(made: Made, caller: Caller, told: Sequence[tuple[Way, Mapping[str, Any]]], findings: Findings) -> None:
    """Move what was found to the line where one change makes every failed step hold, in each of the calls.

    told: calls, the plain one first, and what their recordings came to.
    """
    wrong = [f for f in findings.found.values() if f.kind in ("mistake", "unknown")]
    failed = {e["step"] for _, one in told for e in one["ledger"] if e["outcome"] == "failed"}
    mistakes = {fault["mistake"] for _, one in told for fault in one["faults"]}
    file, first = caller.face.description["file"], made.of(caller)
    text = own("".join(linecache.getlines(file)), caller.face.description["name"]) if file else ""
    known = caller.handle is None or first is not None
    if not text or not known or not failed or any(f.id not in mistakes for f in wrong):
        return
    lines = {f.where["line"] for f in wrong if f.where}
    end = time.monotonic() + _SECONDS
    for edit in sorted(edits(text), key=lambda edit: min((abs(edit.line - line) for line in lines), default=0)):
        if time.monotonic() > end:
            return
        if _mends(made, caller, told, failed, edited(text, edit)):
            for finding in wrong if edit.line not in lines else ():
                where = {"file": file, "line": edit.line, "text": linecache.getline(file, edit.line).strip()}
                findings.found[finding.id] = replace(
                    finding, where=where, mend=f"{finding.mend}  {_said(edit)}".strip()
                )
            return


def _said(edit: Edit) -> str:
    return f"With {edit.text} in the place of {edit.was} this step is right."


def _mends(
    made: Made, caller: Caller, told: Sequence[tuple[Way, Mapping[str, Any]]], failed: set[str], text: str
) -> bool:
    """Whether another text makes the failed steps hold, and none fail, in the calls together."""
    session, first = caller.session, made.of(caller)
    reply, _ = session.ask({"op": "edit", "text": text})
    if "error" in reply:
        return False
    held = set[str]()
    try:
        for way, before in told:
            other: Caller | None = caller
            if first is not None:
                again = Made(session, made.maker)
                own_lengths = way.guess.lengths == told[0][0].guess.lengths
                reply = again.build(first[0] if own_lengths else replace(first[0], lengths=way.guess.lengths))
                other = None if "error" in reply else replace(caller, handle=reply["handle"])
            judged = other.ask([way])[0].judged if other is not None else {}
            if judged.get("faults", True) or judged["cores"] != before["cores"]:
                return False
            held |= {entry["step"] for entry in judged["ledger"] if entry["outcome"] == "held"}
        return failed <= held
    finally:
        session.ask({"op": "edit", "text": None})
