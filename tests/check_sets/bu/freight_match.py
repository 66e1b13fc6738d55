"""freight_match: embeddings so that a load and the truck that took it are close.

Symmetric InfoNCE with temperature, plus its gradient by hand (the broker runs this
in a spreadsheet plug-in that only has numpy).
"""
import numpy as np


def l2(x, eps=1e-12):
    n = np.sqrt((x * x).sum(axis=1, keepdims=True)) + eps
    return x / n, n


def row_softmax(s):
    s = s - s.max(axis=1, keepdims=True)
    e = np.exp(s)
    return e / e.sum(axis=1, keepdims=True)


def lane_loss(query_load, key_truck, tau=0.1, taken=None):
    """query_load, key_truck (n, d): row i of one took row i of the other.
    taken (n, n) bool: further pairs that also happened, not used as negatives.
    Returns loss, d loss / d query_load, d loss / d key_truck."""
    q, qn = l2(query_load)
    k, kn = l2(key_truck)
    scores = q @ k.T / tau
    if taken is not None:
        other = taken & ~np.eye(len(q), dtype=bool)
        scores = np.where(other, -np.inf, scores)
    n = len(q)
    p = row_softmax(scores)
    r = row_softmax(scores.T)
    hit = np.arange(n)
    loss = -0.5 * (np.log(p[hit, hit]).mean() + np.log(r[hit, hit]).mean())
    g = (p - np.eye(n) + (r - np.eye(n)).T) / (2 * n * tau)
    dq, dk = g @ k, g.T @ q
    dq = (dq - q * (dq * q).sum(1, keepdims=True)) / qn
    dk = (dk - k * (dk * k).sum(1, keepdims=True)) / kn
    return loss, dq, dk


def descend(loads, trucks, steps=50, rate=0.5):
    a, b = loads.copy(), trucks.copy()
    trace = []
    for _ in range(steps):
        loss, da, db = lane_loss(a, b)
        a -= rate * da
        b -= rate * db
        trace.append(loss)
    return a, b, trace


def top_trucks(load, trucks, n=3):
    s = l2(load[None])[0] @ l2(trucks)[0].T
    return np.argsort(-s[0])[:n]


if __name__ == "__main__":
    g = np.random.default_rng(0)
    a, b, t = descend(g.normal(size=(6, 4)), g.normal(size=(6, 4)))
    print(t[0], t[-1], top_trucks(a[2], b))
