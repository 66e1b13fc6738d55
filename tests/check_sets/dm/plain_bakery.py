"""Attention explained to my bakery students, no library at all, only lists.

ask_the_shelf(orders, labels, breads, closed=None)

    orders  list of n lists of length d    what customers want
    labels  list of m lists of length d    labels on the shelf
    breads  list of m lists of length e    what lies behind the label
    closed  list of m booleans, True = this place of the shelf is sold out; at
            least one place is open

Each customer gets a mixture of breads, a list of length e: the weights are the softmax,
over the open places, of order . label / sqrt(d).
"""
from math import exp, fsum, sqrt


def dot(a, b):
    return fsum(x * y for x, y in zip(a, b, strict=True))


def shares(points):
    """softmax of a list; None stands for a closed place and gets 0"""
    best = max(p for p in points if p is not None)
    e = [0.0 if p is None else exp(p - best) for p in points]
    whole = fsum(e)
    return [x / whole for x in e]


def ask_the_shelf(orders, labels, breads, closed=None):
    assert len(labels) == len(breads)
    if closed is None:
        closed = [False] * len(labels)
    mixtures = []
    for order in orders:
        root = sqrt(len(order))
        points = [None if shut else dot(order, label) / root for label, shut in zip(labels, closed)]
        share = shares(points)
        mixtures.append([fsum(s * b[c] for s, b in zip(share, breads)) for c in range(len(breads[0]))])
    return mixtures


if __name__ == "__main__":
    print(ask_the_shelf([[1.0, 0.0]], [[3.0, 0.0], [0.0, 3.0]], [[1.0], [2.0]]))
