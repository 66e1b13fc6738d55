"""Clause look-up for contract review, in plain Python (runs inside a Lambda, no wheels).

`blend` mixes the risk profiles of stored clauses for a new clause:

    weight_i = softmax_i( cos(query, key_i) / temperature )   over the clauses of
               the same jurisdiction as the query; the others have weight 0
    profile  = sum_i weight_i * value_i

query: list of floats; store: list of dicts with "key" (list), "value" (list, all
of one length) and "law" (str).  If no stored clause has the jurisdiction the
answer is (None, []).  Otherwise: (profile, weights with one entry per stored clause).
"""
import math


def dot(a, b):
    return math.fsum(x * y for x, y in zip(a, b))


def unit(a):
    n = math.sqrt(dot(a, a))
    return [x / n for x in a] if n > 0 else list(a)


def softmax(xs):
    top = max(xs)
    es = [math.exp(x - top) for x in xs]
    z = math.fsum(es)
    return [e / z for e in es]


def blend(query, law, store, temperature=0.1):
    idx = [i for i, c in enumerate(store) if c["law"] == law]
    if not idx:
        return None, []
    q = unit(query)
    p = softmax([dot(q, unit(store[i]["key"])) / temperature for i in idx])
    weights = [0.0] * len(store)
    for i, w in zip(idx, p):
        weights[i] = w
    width = len(store[idx[0]]["value"])
    profile = [math.fsum(weights[i] * store[i]["value"][j] for i in idx) for j in range(width)]
    return profile, weights


def most_similar(query, law, store, n=3):
    """indices of the n heaviest clauses, heaviest first"""
    _, w = blend(query, law, store)
    return sorted((i for i, x in enumerate(w) if x > 0), key=lambda i: -w[i])[:n]
