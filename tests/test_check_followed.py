"""What code says of itself beside its numbers, and what is learnt of a call that fails."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest

from overt.check.calls import Guess, Lengths, Tried
from overt.check.checking import examine
from overt.check.giving import is_written
from overt.check.reading import read
from overt.check.report import CallError
from overt.check.session import Session

SOURCE = '''
import numpy as np

def soft(z):
    z = np.exp(z - z.max(-1, keepdims=True))
    return z / z.sum(-1, keepdims=True)

def flat(weights, prefix, x):
    lin = lambda name, t: t @ weights[f"{prefix}.{name}.weight"].T
    q, k, v = lin("q_proj", x), lin("k_proj", x), lin("v_proj", x)
    return lin("o_proj", soft(q @ k.swapaxes(-1, -2) / q.shape[-1] ** 0.5) @ v)
'''


def test_names_that_functions_of_one_line_put_together_are_known(session: Session, file: Path) -> None:
    assert read(SOURCE.partition("def flat")[2].join(["def flat", ""]), ["weights", "prefix", "x"]).texts
    report = examine(session, f"{file}:flat")
    assert report.ok
    assert "weights.prefix.q_proj.weight: WW" in report.convention["called with"]


@pytest.mark.parametrize("name", ["w", "model.layers.0.q.weight", "blocks[0]/q", "q, k", "gpt:{n}"])
def test_names_that_somebody_may_have_written_are_learnt(name: str) -> None:
    assert is_written(name)


@pytest.mark.parametrize("name", [f"{np.ones((2, 3))}.q", f"{np.ones(2)}.w", "JitTracer(float32[2,64]).q", "a" * 200, 3])
def test_names_that_hold_an_array_are_not_learnt(name: object) -> None:
    assert not is_written(name)


def test_messages_of_calls_are_short() -> None:
    """Whatever was tried."""
    guess = Guess(tuple((("x", "\n".join("long" * 300) + str(n)), "BTW") for n in range(9)), Lengths())
    tried = Tried(guess, {"error": {"type": "ValueError", "message": "so\n" * 300}})
    assert len(str(tried)) < 500
    message = str(CallError(f"no call works: {tried}; {'x ' * 5000}.  Give a call with --example"))
    assert len(message) < 1000
    assert message.endswith("Give a call with --example")
    assert "\n" not in message
