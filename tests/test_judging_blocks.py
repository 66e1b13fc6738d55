"""Blocks of queries and of keys are judged by where they lie among all of them; rows that see nothing say nothing."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import pytest

from overt.check.checking import examine
from overt.check.process.session import Session
from overt.check.steps.judging import judge
from overt.recorder import record_operations

RNG = np.random.default_rng(1)
Q, K, V = (RNG.normal(size=(2, 3, n, 4)) for n in (6, 9, 9))

ONLINE = '''
import numpy as np

def online(q, k, v, padding=None, causal=False, block={block}, shift={shift}):
    """q (B, H, T, D), k and v (B, H, S, D); padding (B, S): True = {says}; causal: hides later keys."""
    top, total = np.full(q.shape[:-1], -np.inf), np.zeros(q.shape[:-1])
    out = np.zeros(q.shape[:-1] + v.shape[-1:])
    for j in range(0, k.shape[2], block):
        s = q @ k[:, :, j : j + block].swapaxes(-1, -2) / np.sqrt(q.shape[-1])
        keys = np.arange(j, j + s.shape[-1])
        if padding is not None:
            s = np.where(padding[:, None, None, j : j + block], -1e30, s)
        if causal:
            s = np.where(keys > np.arange(q.shape[2])[:, None] + k.shape[2] - q.shape[2] + shift, -1e30, s)
        new = np.maximum(top, s.max(-1))
        p, less = np.exp(s - new[..., None]), np.exp(top - new)
        total, out, top = total * less + p.sum(-1), out{less} + p @ v[:, :, j : j + block], new
    return out / total[..., None]
'''


def wrong(code: Any, *arrays: np.ndarray) -> list[str]:
    """The mistakes of a function of arrays."""
    result, operations = record_operations(code, *arrays)
    return [fault.mistake for fault in judge(operations, [result]).faults]


@pytest.mark.parametrize(("shift", "late", "expected"), [
    (0, 3, set()), (1, 3, {"causal_off_by_one"}), (-1, 3, {"causal_off_by_one"}), (0, 0, {"causal_top_left"}),
])  # fmt: skip
@pytest.mark.parametrize("rows", [2, 4, 6])
def test_a_tile_of_queries_stands_where_it_lies_among_all(rows: int, shift: int, late: int, expected: set[str]) -> None:
    def code(q: np.ndarray, k: np.ndarray, v: np.ndarray) -> np.ndarray:
        found = []
        for i in range(0, q.shape[2], rows):
            some = q[:, :, i : i + rows]
            at = np.arange(i, i + some.shape[2])[:, None] + late + shift
            s = np.where(np.arange(k.shape[2]) > at, -np.inf, some @ k.swapaxes(-1, -2) / 2)
            e = np.exp(s - s.max(-1, keepdims=True))
            found.append(e / e.sum(-1, keepdims=True) @ v)
        return np.concatenate(found, 2)

    assert set(wrong(code, Q, K, V)) == expected


def test_a_query_of_a_sample_may_stand_at_another_place_than_those_of_others() -> None:
    def code(states: np.ndarray, lengths: np.ndarray) -> np.ndarray:
        q = np.tanh(states[lengths - 1, np.arange(len(lengths))])
        s = np.einsum("bn,sbn->sb", q, states) / 2
        s = np.where(np.arange(len(states))[:, None] < lengths[None], s, -np.inf)
        e = np.exp(s - s.max(0))
        return ((e / e.sum(0))[:, :, None] * states).sum(0)

    assert wrong(code, RNG.normal(size=(5, 2, 4)), np.array([4, 5])) == []


@pytest.mark.parametrize("again", [True, False])
def test_rows_that_see_nothing_say_nothing(again: bool) -> None:
    seen = np.ones((1, 1, 6, 9), bool)
    seen[..., 2, :] = seen[..., 4, 3] = False

    def code(q: np.ndarray, k: np.ndarray, v: np.ndarray, seen: np.ndarray) -> np.ndarray:
        s = np.where(seen, q @ k.swapaxes(-1, -2) / 2, -1e30)
        e = np.exp(s - s.max(-1, keepdims=True))
        if again:
            e = np.where(seen, e, 0.0)
            return e / np.maximum(e.sum(-1, keepdims=True), 1e-30) @ v
        return np.where(seen, e / e.sum(-1, keepdims=True), 0.0) @ v

    assert wrong(code, Q, K, V, seen) == []


@pytest.mark.parametrize(("less", "says", "shift", "block", "expected"), [
    (" * less[..., None]", "may not be seen", 0, 4, set()),
    (" * less[..., None]", "may not be seen", 0, 64, set()),
    ("", "may not be seen", 0, 4, {"unknown"}),
    ("", "may not be seen", 0, 64, {"unknown"}),
    (" * less[..., None]", "may be seen", 0, 4, {"mask_inverted"}),
    (" * less[..., None]", "may not be seen", 1, 4, {"causal_off_by_one"}),
])  # fmt: skip
def test_blocks_of_keys_are_one_attention(
    session: Session, less: str, says: str, shift: int, block: int, expected: set[str], tmp_path: Path
) -> None:
    file = tmp_path / f"online_{block}_{shift}_{len(less)}_{len(says)}.py"
    file.write_text(ONLINE.format(less=less, says=says, shift=shift, block=block))
    report = examine(session, f"{file}:online")
    assert {f.id for f in report.findings if f.kind in ("mistake", "unknown")} == expected
