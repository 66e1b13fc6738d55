"""A call that was found by trying is varied: masks, flags, training, half precision, other inputs."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

from overt.check import trying
from overt.check.findings import Findings
from overt.check.process import watching
from overt.check.process.session import Here
from overt.check.report import CheckerError
from overt.check.text.interface import Interface

DRAWN = np.random.default_rng(0)


def told(code: Callable[..., Any]) -> set[str]:
    """What is found with no help of the engine of variants."""
    session = Here(code)
    description = session.ask({"op": "load", "target": None})[0]["description"]
    face, findings = Interface(description, description["parameters"], {}), Findings(description)
    trying.check(session, face, None, findings)
    return set(findings.found)


def soft(s: np.ndarray) -> np.ndarray:
    e = np.exp(s - s.max(-1, keepdims=True))
    return e / e.sum(-1, keepdims=True)


def scores(q: np.ndarray, k: np.ndarray) -> np.ndarray:
    return q @ np.swapaxes(k, -1, -2) / q.shape[-1] ** 0.5


def plain(q, k, v, mask=None):  # type: ignore[no-untyped-def]
    """mask: True = may attend."""
    s = scores(q, k)
    return soft(s if mask is None else np.where(mask, s, -1e30)) @ v


def turned(q, k, v, mask=None):  # type: ignore[no-untyped-def]
    """mask: True = may attend."""
    s = scores(q, k)
    return soft(s if mask is None else np.where(mask, -1e30, s)) @ v


def emptied(q, k, v, mask=None):  # type: ignore[no-untyped-def]
    """mask: True = may attend."""
    s = scores(q, k)
    return soft(s if mask is None else np.where(mask, s, -np.inf)) @ v


def changing(q, k, v):  # type: ignore[no-untyped-def]
    q *= q.shape[-1] ** -0.5
    return soft(q @ np.swapaxes(k, -1, -2)) @ v


def random(q, k, v):  # type: ignore[no-untyped-def]
    w = soft(scores(q, k))
    return w * (DRAWN.random(w.shape) > 0.1) / 0.9 @ v


def uncapped(q, k, v, cap=None):  # type: ignore[no-untyped-def]
    return soft(scores(q, k)) @ v


def capped(q, k, v, cap=None):  # type: ignore[no-untyped-def]
    s = scores(q, k)
    return soft(s if cap is None else cap * np.tanh(s / cap)) @ v


def ahead(q, k, v, causal=False):  # type: ignore[no-untyped-def]
    s = scores(q, k)
    t, n = s.shape[-2:]
    return soft(np.where(np.tri(t, n, n - t + 1, dtype=bool), s, -1e30) if causal else s) @ v


def bias(q, k, v, mask=0.0):  # type: ignore[no-untyped-def]
    """mask is added to the scores."""
    return soft(scores(q, k) + mask) @ v


# What is told of textbook code beside its numbers.
NOTES = ("memory_quadratic", "dtype_changed")


@pytest.mark.parametrize(
    ("code", "wrong", "also"),
    [
        (plain, set(), {"nan_in_masked_value"}),
        (turned, {"mask_inverted"}, set()),
        (emptied, {"full_row_nan", "nan_in_masked_value"}, set()),
        (changing, {"inplace"}, set()),
        (random, {"dropout_eval"}, set()),
        (uncapped, {"softcap_missing"}, set()),
        (capped, set(), set()),
        (ahead, {"causal_off_by_one"}, set()),
        (bias, set(), set()),
    ],
)
def test_what_is_varied_shows(code: Callable[..., Any], wrong: set[str], also: set[str]) -> None:
    found = told(code)
    assert wrong <= found
    assert found <= wrong | also | {"nan_in_masked_value", "mask_fp16_overflow", "softmax_low_precision", *NOTES}


def test_a_recording_that_breaks_the_checker_is_no_code_without_attention(monkeypatch: pytest.MonkeyPatch) -> None:
    def judge(*_: Any, **__: Any) -> None:
        raise KeyError("cells")

    monkeypatch.setattr(watching, "judge", judge)
    monkeypatch.setattr(trying.outside, "read", lambda *_: {})
    with pytest.raises(CheckerError, match=r"plain runs, with q.*KeyError: 'cells'"):
        told(plain)
