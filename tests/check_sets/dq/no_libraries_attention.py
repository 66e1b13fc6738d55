"""Attention without any library, for the school workshop "How do chatbots read?".

Only lists and the math module, so pupils can put a print() anywhere.
"""
import math


def dot(a, b):
    return sum(x * y for x, y in zip(a, b))


def apply(matrix, vector):
    """matrix is a list of rows; returns the list of row . vector."""
    return [dot(row, vector) for row in matrix]


def contextualise(words, Wq, Wk, Wv, reach=None):
    """Let every word look at its neighbours and return the new word vectors.

    words      : list of n vectors (lists of D floats)
    Wq, Wk, Wv : matrices as lists of rows; Wq and Wk have d rows of length D,
                 Wv has e rows
    reach      : None = every word sees every word; an int r >= 0 = word i sees the
                 words j with |i - j| <= r (itself and r on either side)
    returns    : list of n vectors of e floats,
                 sum_j softmax_j(q_i . k_j / sqrt(d)) v_j over the words seen
    """
    queries = [apply(Wq, w) for w in words]
    keys = [apply(Wk, w) for w in words]
    values = [apply(Wv, w) for w in words]
    root = math.sqrt(len(Wq))

    result = []
    for i, q in enumerate(queries):
        seen = [j for j in range(len(words)) if reach is None or abs(i - j) <= reach]
        scores = {j: dot(q, keys[j]) / root for j in seen}
        best = max(scores.values())
        share = {j: math.exp(s - best) for j, s in scores.items()}
        total = sum(share.values())
        blend = [0.0] * len(Wv)
        for j in seen:
            for c, x in enumerate(values[j]):
                blend[c] += share[j] / total * x
        result.append(blend)
    return result


if __name__ == "__main__":
    eye = [[1.0, 0.0], [0.0, 1.0]]
    for row in contextualise([[1, 0], [0, 1], [2, 2]], eye, eye, eye, reach=1):
        print([round(x, 3) for x in row])
