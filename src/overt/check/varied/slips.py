"""What one slip of the pen may be: the candidate with one change of its text after the other, until something fits."""

from __future__ import annotations

import linecache
import time
from collections.abc import Callable
from typing import TypeVar

import numpy as np

from overt.check.calls import call as calls
from overt.check.calls.call import Guess
from overt.check.findings import Findings
from overt.check.process.session import EndedError, Here, Session
from overt.check.text.edits import Edit, edited, edits, own
from overt.check.text.interface import Interface
from overt.check.varied import outside
from overt.check.varied.asking import Caller, Way

T = TypeVar("T")
# Seconds for changes of a text; and steps that attention has.
_SECONDS = 4.0
_STEPS = ("softmax", "scale")


def mended(session: Session | Here, face: Interface, fits: Callable[[], T | None]) -> tuple[Edit, T] | None:
    """The first change of the candidate's text with which something fits, and what."""
    file, name = face.description["file"], face.description["name"]
    source = own("".join(linecache.getlines(file)), name) if file else ""
    end = time.monotonic() + _SECONDS
    try:
        for edit in edits(source):
            if time.monotonic() > end:
                break
            reply, _ = session.ask({"op": "edit", "text": edited(source, edit)})
            found = None if "error" in reply else fits()
            session.ask({"op": "edit", "text": None})
            if found is not None:
                return edit, found
    except EndedError:
        # What another text does to its process is no fault of the candidate's.
        return None
    return None


def attends(session: Session | Here, face: Interface, caller: Caller, guess: Guess, findings: Findings) -> bool:
    """Enter the one change with which a call attends, and nothing is wrong, where it does not as it is."""
    if caller.handle is not None or not any(calls.is_floats(kind) for _, kind in guess.kinds):
        # Numbers alone attend to nothing.
        return False
    (plain,) = caller.ask([Way(guess)])
    if not all(face.has(role) for role in "qkv") and not all(np.isfinite(x).all() for x in plain.outputs):
        # Of numbers that it was given, one may not be meant.
        return False

    def fits() -> bool | None:
        # What is asked from outside needs no recording of loops over numbers, and that is quicker.
        for told in (outside.read(caller, guess), *caller.recorded(guess)):
            held, untried = ({e["step"] for e in told.get("ledger", ()) if e["outcome"] == outcome}
                             for outcome in ("held", "not tried"))  # fmt: skip
            # Scores of which not every step was understood are those of something else.
            if told.get("cores") and not told["faults"] and held.issuperset(_STEPS) and "scores" not in untried:
                return True
        return None

    edit, _ = (None if fits() else mended(session, face, fits)) or (None, None)
    if edit is None:
        # Or it attends as it is, though not all of it was followed.
        return False
    findings.convention["called with"] = str(guess)
    findings.add(
        "unknown", kind="unknown", certain=False, line=edit.line, look="(?!)",
        message=f"It does not attend as it is, and does with {edit.text} in the place of {edit.was}.",
        mend=f"Write {edit.text} for {edit.was}.",
    )  # fmt: skip
    return True
