"""Self-attention with nothing but lists, for the first lecture."""
from math import exp, sqrt


def dot(a, b):
    return sum(x * y for x, y in zip(a, b))


def matvec(M, x):
    return [dot(row, x) for row in M]


def softmax(zs):
    top = max(zs)
    es = [exp(z - top) for z in zs]
    total = sum(es)
    return [e / total for e in es]


def read_left_to_right(words, Wq, Wk, Wv):
    """words: list of T vectors. Word t looks at words 0..t. Returns T vectors and the T weight lists."""
    qs = [matvec(Wq, w) for w in words]
    ks = [matvec(Wk, w) for w in words]
    vs = [matvec(Wv, w) for w in words]
    outs, weights = [], []
    for t, q in enumerate(qs):
        a = softmax([dot(q, k) / sqrt(len(q)) for k in ks[: t + 1]])
        outs.append([sum(w * v[c] for w, v in zip(a, vs)) for c in range(len(vs[0]))])
        weights.append(a)
    return outs, weights
