"""Pointer network step for the travelling mushroom hunter. No libraries, just lists."""
import math


def dot(a, b):
    return sum(x * y for x, y in zip(a, b))


def matvec(m, x):
    return [dot(row, x) for row in m]


def next_stop(state, places, visited, W_place, W_state, v):
    """Probability of going to each place next.

    state:   decoder state, list of floats
    places:  list of encoded places
    visited: list of bools, True = already been there (probability 0)
    """
    if all(visited):
        raise ValueError("tour is complete")
    s = matvec(W_state, state)
    energy = []
    for p, done in zip(places, visited):
        if done:
            energy.append(None)
            continue
        h = matvec(W_place, p)
        energy.append(dot(v, [math.tanh(a + b) for a, b in zip(h, s)]))
    top = max(e for e in energy if e is not None)
    ex = [0.0 if e is None else math.exp(e - top) for e in energy]
    z = sum(ex)
    return [x / z for x in ex]


def glimpse(state, places, visited, W_place, W_state, v):
    """Expected place vector under next_stop, used to refine the state."""
    p = next_stop(state, places, visited, W_place, W_state, v)
    n = len(places[0])
    return [sum(p[i] * places[i][c] for i in range(len(places))) for c in range(n)]
