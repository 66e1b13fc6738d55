# A drone weighs its neighbours and takes over part of their heading. Pure Python, runs on the board.
from math import exp, sqrt


def _apply(matrix, vector):
    return [sum(m * x for m, x in zip(row, vector)) for row in matrix]


def neighbour_heading(me, neighbours, headings, Wq, Wk):
    """me: feature list; neighbours: list of feature lists; headings: one list per neighbour.

    Returns the weighted mean heading; with no neighbours, an empty list.
    """
    if not neighbours:
        return []
    q = _apply(Wq, me)
    keys = [_apply(Wk, n) for n in neighbours]
    root = sqrt(len(q))
    scores = [sum(a * b for a, b in zip(q, k)) / root for k in keys]
    top = max(scores)
    parts = [exp(s - top) for s in scores]
    total = sum(parts)
    out = [0.0] * len(headings[0])
    for p, h in zip(parts, headings):
        for i, c in enumerate(h):
            out[i] += p / total * c
    return out
