"""Graph attention on a small directed citation graph, in plain Python."""
import math


def gat_layer(x, edges, W, a_from, a_to, slope=0.2):
    """x: list of N feature lists; edges: list of (source, target) pairs.

    A node averages its incoming messages: the weights of the edges that end in one node sum to one.
    Nodes without incoming edges get zeros. Returns N lists.
    """
    h = [[sum(w * f for w, f in zip(row, feats)) for row in W] for feats in x]
    scores = []
    for s, t in edges:
        z = sum(p * q for p, q in zip(a_from, h[s])) + sum(p * q for p, q in zip(a_to, h[t]))
        scores.append(z if z > 0 else slope * z)
    peak = {}
    for (s, t), z in zip(edges, scores):
        peak[t] = max(z, peak.get(t, z))
    total = {}
    exps = []
    for (s, t), z in zip(edges, scores):
        e = math.exp(z - peak[t])
        exps.append(e)
        total[t] = total.get(t, 0.0) + e
    out = [[0.0] * len(W) for _ in x]
    for (s, t), e in zip(edges, exps):
        for c, val in enumerate(h[s]):
            out[s][c] += e / total[t] * val
    return out
