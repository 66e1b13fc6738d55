"""``overt check`` of what no recording follows, loops over numbers, and of attention over the edges of graphs."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import pytest
import torch

from overt.check.steps.judging import judge
from overt.recorder import record_operations

SOURCE = '''
import math
import numpy as np

def row(query, keys, values, scale, shift=True, seen=None):
    scores = [sum(float(a) * float(b) for a, b in zip(query, key)) * scale for key in keys]
    top = max(scores) if shift else 0.0
    weights = [math.exp(s - top) for s in scores]
    return [sum(w * float(v[j]) for w, v in zip(weights, values)) / sum(weights) for j in range(len(values[0]))]

def right(q, k, v):
    """q (n, d), k (m, d), v (m, e)"""
    return np.array([row(x, k, v, len(x) ** -0.5) for x in q])

def second(q, k, v):
    """q (n, d), k (m, d), v (m, e)"""
    return np.array([row(x, k, v, 1.0) for x in q])

def by_width(q, k, v):
    """q (n, d), k (m, d), v (m, e)"""
    return np.array([row(x, k, v, 1 / len(x)) for x in q])

def bare(q, k, v):
    """q (n, d), k (m, d), v (m, e)"""
    return np.array([row(x, k, v, len(x) ** -0.5, shift=False) for x in q])
'''


@pytest.mark.parametrize(
    ("name", "expected"),
    [("right", []), ("second", ["scale_missing"]), ("by_width", ["scale_d"]), ("bare", ["no_max"])],
)
def test_loops_over_numbers_are_read_from_outside(
    mistakes: Callable[[str], list[str]], name: str, expected: list[str]
) -> None:
    assert mistakes(name) == expected


def graph() -> tuple[np.ndarray, np.ndarray]:
    """Sources and targets of three edges a node, in no order."""
    nodes = np.arange(5)
    both = np.concatenate([(np.roll(nodes, -n), nodes) for n in range(3)], axis=1)
    sources, targets = np.random.default_rng(0).permutation(both, axis=1)
    return sources, targets


def over_edges(q: np.ndarray, k: np.ndarray, v: np.ndarray, sources: Any, targets: Any) -> np.ndarray:
    scores = (q[targets] * k[sources]).sum(-1) / np.sqrt(q.shape[-1])
    top = np.full(len(q), -np.inf)
    np.maximum.at(top, targets, scores)
    powers = np.exp(scores - top[targets])
    sums = np.zeros(len(q))
    np.add.at(sums, targets, powers)
    out = np.zeros_like(v)
    np.add.at(out, targets, (powers / sums[targets])[:, None] * v[sources])
    return out


def over_edges_of_torch(q: Any, k: Any, v: Any, sources: Any, targets: Any) -> Any:
    return mixed_over_edges((q[targets] * k[sources]).sum(-1) / 2, v, sources, targets)


def larger_over_edges(q: Any, k: Any, v: Any, sources: Any, targets: Any) -> Any:
    return mixed_over_edges((q[targets] * k[sources]).sum(-1), v, sources, targets)


def mixed_over_edges(scores: Any, v: Any, sources: Any, targets: Any) -> Any:
    powers = (scores - scores.max()).exp()
    sums = torch.zeros(len(v), dtype=v.dtype).index_add(0, targets, powers)
    return torch.zeros_like(v).index_add(0, targets, (powers / sums[targets])[:, None] * v[sources])


def of_two_parts(q: Any, k: Any, v: Any, sources: Any, targets: Any) -> Any:
    """Velickovic et al. (2018): what the target says and what the source says, added up."""
    scores = torch.nn.functional.leaky_relu(q.sum(-1)[targets] + k.sum(-1)[sources], 0.2)
    top = torch.full((len(q),), -torch.inf, dtype=q.dtype).scatter_reduce(0, targets, scores, "amax")
    powers = (scores - top[targets]).exp()
    sums = torch.zeros(len(q), dtype=q.dtype).scatter_add(0, targets, powers)
    return torch.zeros_like(v).index_add(0, targets, (powers / sums[targets])[:, None] * v[sources])


@pytest.mark.parametrize(
    ("code", "expected"),
    [
        (over_edges, []),
        (over_edges_of_torch, ["global_max"]),
        (larger_over_edges, ["global_max", "scale_missing"]),
        (of_two_parts, []),
    ],
)
def test_edges_are_rows_of_keys(code: Callable[..., Any], expected: list[str]) -> None:
    drawn = np.random.default_rng(1).normal(size=(3, 5, 4))
    given = [*drawn, *graph()]
    if code is not over_edges:
        given = [torch.from_numpy(np.ascontiguousarray(x)) for x in given]
    out, operations = record_operations(code, *given)
    judged = judge(operations, [np.asarray(out)])
    assert judged.cores == 1
    assert sorted(fault.mistake for fault in judged.faults) == expected
    assert {"softmax", "mixing"} <= {entry.step for entry in judged.ledger if entry.outcome == "held"}
