"""Longformer attention pattern (Beltagy et al. 2020) in plain Python, one head, lists only.

longformer(q, k, v, w, G)
    q, k, v : lists of n rows; q and k rows have d floats, v rows any number
    w       : one-sided window; token i sees the tokens j with |i - j| <= w
    G       : set of global tokens; they see every token and every token sees them
Each visible pair is scored q_i.k_j / sqrt(d); weights are a softmax over the visible j.
Not the separate global projections of the paper: the tasks here did not need them.
Returns n rows.
"""
from math import exp, sqrt


def see(i, n, w, G):
    if i in G:
        return list(range(n))
    a, b = max(0, i - w), min(n, i + w + 1)
    return sorted(set(range(a, b)) | set(G))


def longformer(q, k, v, w, G=()):
    n = len(q)
    r = 1.0 / sqrt(len(q[0]))
    o = []
    for i in range(n):
        J = see(i, n, w, G)
        s = [r * sum(x * y for x, y in zip(q[i], k[j])) for j in J]
        t = max(s)
        e = [exp(u - t) for u in s]
        z = sum(e)
        o.append([sum(e[m] * v[j][c] for m, j in enumerate(J)) / z for c in range(len(v[0]))])
    return o
