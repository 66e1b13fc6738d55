"""Logistics: blends the price curves of carriers by similarity to a shipment (no libraries).

choose_mix(shipment, profiles, curves, open_today) -> (blend, weights)
    shipment    list of d floats
    profiles    list of n lists of d floats, one profile per carrier
    curves      list of n lists of m floats, one price curve per carrier
    open_today  list of n bools, True = the carrier takes orders today; at least one is open
weights is the softmax of  shipment . profile / sqrt(d)  over the open carriers (closed ones
get exactly 0), blend the curve weighted with it.
"""


def dot(a, b):
    return sum(x * y for x, y in zip(a, b))


def normalise(scores):
    total = sum(scores)
    return [s / total for s in scores]


def choose_mix(shipment, profiles, curves, open_today):
    root = len(shipment) ** 0.5
    open_idx = [i for i, flag in enumerate(open_today) if flag]
    scores = [dot(shipment, profiles[i]) / root for i in open_idx]
    weights = [0.0] * len(profiles)
    for i, w in zip(open_idx, normalise(scores)):
        weights[i] = w
    blend = [0.0] * len(curves[0])
    for w, curve in zip(weights, curves):
        for m, price in enumerate(curve):
            blend[m] += w * price
    return blend, weights
