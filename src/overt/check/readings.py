"""What the arrays of an attention of recurrent networks may be: which meets the state, which the encoder's states."""

from __future__ import annotations

import re
from collections.abc import Iterator
from dataclasses import dataclass, replace
from itertools import permutations, product
from typing import Any

import numpy as np

from overt.check.instances import WIDTH


@dataclass(frozen=True, eq=False)
class Reading:
    """What a candidate's arrays may be: scores v · tanh(q W + k U + b) + c, q M k, or q M alone; and tanh(C [h; c])."""

    kind: str
    q: np.ndarray | None = None
    k: np.ndarray | None = None
    v: np.ndarray | None = None
    b: np.ndarray | float = 0.0
    c: np.ndarray | float = 0.0
    scale: float = 1.0
    vector: tuple[np.ndarray, np.ndarray | float] | None = None


def widths(arrays: dict[str, np.ndarray]) -> list[tuple[int, int]]:
    """Widths of queries and keys that an instance's matrices may take: rows of two, or of one for both together."""
    rows = sorted({n for a in arrays.values() if a.ndim == 2 for n in a.shape if n > 1}) or [WIDTH]
    pairs = [(WIDTH, WIDTH), *product(rows, rows), *((n, whole - n) for whole in rows for n in rows if n < whole)]
    return list(dict.fromkeys(pairs))


def readings(named: dict[str, np.ndarray], turnable: set[str], Dq: int, Dk: int, luong: bool) -> Iterator[Reading]:
    """What an instance's arrays may be."""
    matrices = {p: a for p, a in named.items() if a.ndim == 2}
    vectors = {p: a for p, a in named.items() if a.ndim == 1}
    # Biases that belong to no matrix are added to the sum.
    loose = [a for p, a in vectors.items() if p.endswith("bias") and p[: -len("bias")] + "weight" not in named]

    def bias(path: str) -> np.ndarray | float:
        whole = path.endswith(("weight", "kernel"))
        return vectors.get(re.sub(r"(weight|kernel)$", "bias", path), 0.0) if whole else 0.0

    def ways(path: str, *shape: int) -> list[np.ndarray]:
        found = [matrices[path], *([matrices[path].T] if path in turnable else [])]
        return [a for a in found if a.shape == shape]

    squares = [p for p, a in matrices.items() if 1 not in a.shape]
    lasts: list[tuple[np.ndarray, str]] = [(a, p) for p, a in matrices.items() if a.shape[1] == 1]
    lasts += [(a.T, p) for p, a in matrices.items() if a.shape[0] == 1]
    lasts += [(a[:, None], p) for p, a in vectors.items() if not p.endswith("bias")]
    wide = [(p, a) for p in squares for n in matrices[p].shape for a in ways(p, Dq + Dk, n)]
    for used, reading in _scored(squares, lasts, ways, bias, Dq, Dk, matrices, luong):
        if reading.kind == "additive" and reading.v is not None:
            reading = replace(reading, b=sum((a for a in loose if len(a) == len(reading.v)), reading.b))
        ends = [(a, bias(p)) for p, a in wide if p not in used]
        # The same matrix in two pieces.
        for one, two in permutations([p for p in squares if p not in used], 2):
            for upper, lower in product(*(ways(p, D, *matrices[p].shape[1:]) for p, D in ((one, Dk), (two, Dq)))):
                if upper.shape[1] == lower.shape[1]:
                    ends.append((np.concatenate([upper, lower]), bias(one) + bias(two)))
        yield from (replace(reading, vector=end) for end in ends)
        if not ends:
            yield reading


def _scored(
    squares: list[str],
    lasts: list[tuple[np.ndarray, str]],
    ways: Any,
    bias: Any,
    Dq: int,
    Dk: int,
    matrices: dict[str, np.ndarray],
    luong: bool,
) -> Iterator[tuple[set[str], Reading]]:
    """Readings of the score, with the matrices that each of them uses."""
    for v, vp in lasts:
        A = len(v)
        if not matrices and Dq == Dk == A:
            # No projections: the sum of the query and the key itself.
            yield {vp}, Reading("additive", np.eye(A), np.eye(A), v)
        for a, b in permutations(squares, 2):
            for wq, wk in product(ways(a, Dq, A), ways(b, Dk, A)):
                yield {a, b, vp}, Reading("additive", wq, wk, v, bias(a) + bias(b), bias(vp))
        for p in squares:
            for whole in ways(p, Dq + Dk, A):
                for wq, wk in ((whole[:Dq], whole[Dq:]), (whole[Dk:], whole[:Dk])):
                    yield {p, vp}, Reading("additive", wq, wk, v, bias(p), bias(vp))
    for p in squares:
        # Weights from the query alone, as many as there are keys.
        for whole in ways(p, Dq, 4):
            yield {p}, Reading("direct", whole, b=bias(p))
        if luong:
            for m in ways(p, Dq, Dk):
                yield {p}, Reading("product", q=m, b=bias(p))
            for m in ways(p, Dk, Dq):
                yield {p}, Reading("product", k=m, c=bias(p))
    if luong and Dq == Dk:
        for scale in (1.0, Dq**-0.5):
            yield set(), Reading("product", scale=scale)
