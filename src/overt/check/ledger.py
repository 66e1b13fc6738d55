"""What was tried of a candidate, step by step: what held, what failed, and what was not tried and why."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal

Outcome = Literal["held", "failed", "not tried"]


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
