"""Mid price direction from the order book, without any library (runs on the gateway).

    snapshot = {"bid": [(price, size), ...], "ask": [(price, size), ...]}

`features(book, levels)` makes a vector of 2 * levels numbers; `similar_days(query, keys,
values)` is scaled dot-product attention of the present vector over stored ones:

    w_j = exp(s_j) / sum_k exp(s_k),   s_j = <query, keys[j]> / sqrt(len(query))
    result = sum_j w_j values[j]

query: list of d floats; keys: n lists of d floats; values: n floats (move in ticks that
followed).  Returns (result, w).
"""
import math


def features(book, levels=3):
    mid = 0.5 * (book["bid"][0][0] + book["ask"][0][0])
    vec = []
    for side, sign in (("bid", 1.0), ("ask", -1.0)):
        for price, size in book[side][:levels]:
            vec.append(sign * math.log1p(size) / (1.0 + 100.0 * abs(price - mid)))
    return vec


def dot(a, b):
    return sum(x * y for x, y in zip(a, b))


def soft(scores):
    top = max(scores)
    e = [math.exp(s - top) for s in scores]
    z = sum(e)
    return [x / z for x in e]


def similar_days(query, keys, values):
    width = len(query)
    scores = [dot(query, k) / width for k in keys]
    w = soft(scores)
    return sum(a * v for a, v in zip(w, values)), w


def signal(book, memory, threshold=0.5, levels=3):
    """memory: list of (vector, move).  -> "buy", "sell" or None"""
    q = features(book, levels)
    move, _ = similar_days(q, [m[0] for m in memory], [m[1] for m in memory])
    if move > threshold:
        return "buy"
    if move < -threshold:
        return "sell"
    return None
