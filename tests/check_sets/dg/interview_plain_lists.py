"""Whiteboard exercise: attention with nothing but lists and math."""
import math


def dot(a, b):
    return sum(x * y for x, y in zip(a, b))


def attend(Q, K, V, lengths=None):
    """Scaled dot-product attention on nested lists.

    Q: [n][d]   K: [m][d]   V: [m][e]
    lengths: optional [n]; query i may only look at the first lengths[i] (>= 1) keys
    returns [n][e]
    """
    out = []
    for i, q in enumerate(Q):
        m = len(K) if lengths is None else lengths[i]
        s = [dot(q, K[j]) / math.sqrt(len(q)) for j in range(m)]
        top = max(s)
        w = [math.exp(x - top) for x in s]
        z = sum(w)
        row = [0.0] * len(V[0])
        for j in range(m):
            for c in range(len(row)):
                row[c] += w[j] / z * V[j][c]
        out.append(row)
    return out


if __name__ == "__main__":
    print(attend([[1.0, 0.0]], [[1.0, 0.0], [0.0, 1.0]], [[10.0], [20.0]]))
