# ALiBi, written with loops for the reading group. numpy only.
import math
import numpy as np


def slopes(n):
    """Press et al.: 2^(-8/n), 2^(-16/n), ... ; for n not a power of two take those of the
    nearest smaller power and fill up with every other slope of twice that power."""
    p = 2 ** int(math.floor(math.log2(n)))
    s = [2.0 ** (-8.0 * (h + 1) / p) for h in range(p)]
    s += [2.0 ** (-8.0 * (h + 1) / (2 * p)) for h in range(0, 2 * (n - p), 2)]
    return np.array(s)


def alibi(q, k, v):
    """q, k, v: [H, T, d]; causal; returns [H, T, d]."""
    H, T, d = q.shape
    m = slopes(H)
    y = np.zeros_like(v, dtype=float)
    for h in range(H):
        for i in range(T):
            row = np.empty(i + 1)
            for j in range(i + 1):
                # m * j differs from -m * (i - j) by a constant of the row
                row[j] = q[h, i] @ k[h, j] / math.sqrt(d) + m[h] * j
            row -= row.max()
            w = np.exp(row)
            w /= w.sum()
            for j in range(i + 1):
                y[h, i] += w[j] * v[h, j]
    return y


if __name__ == "__main__":
    g = np.random.default_rng(0)
    print(alibi(*g.normal(size=(3, 6, 5, 4))).shape)
