# Warehouse robot, no numpy on the controller.
import math


def dot(a, b):
    return sum(x * y for x, y in zip(a, b))


def mix(weights, rows):
    return [sum(w * r[c] for w, r in zip(weights, rows)) for c in range(len(rows[0]))]


def softmax(xs):
    m = max(xs)
    es = [math.exp(x - m) for x in xs]
    t = sum(es)
    return [e / t for e in es]


def plan_step(queries, keys, values, cache):
    """The newest len(queries) steps of the plan. cache is {'k': [], 'v': []} and holds all earlier
    steps; the new keys and values are appended. Each new step sees every earlier step and itself,
    not the steps after it. Returns one list per query."""
    cache["k"].extend(keys)
    cache["v"].extend(values)
    d = len(queries[0])
    out = []
    for i, q in enumerate(queries):
        seen = i + 1
        s = [dot(q, k) / math.sqrt(d) for k in cache["k"][:seen]]
        out.append(mix(softmax(s), cache["v"][:seen]))
    return out
