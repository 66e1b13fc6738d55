# Pointer network (Vinyals, Fortunato, Jaitly 2015), convex hull toy task.
# inference only; trained elsewhere, params exported with np.savez
import numpy as np


def sigm(x):
    return 0.5 * (1 + np.tanh(0.5 * x))


def lstm_cell(p, x, hc):
    h, c = hc
    i, f, g, o = np.split(x @ p["wx"] + h @ p["wh"] + p["b"], 4, axis=-1)
    c = sigm(f) * c + sigm(i) * np.tanh(g)
    h = sigm(o) * np.tanh(c)
    return h, c


def point(p, E, h, taken):
    """Eq. 3 of the paper: u_j = v . tanh(W1 e_j + W2 d); no 1/sqrt(d) there.

    E (N, T, d) encoder states, h (N, d) decoder state, taken (N, T) bool
    Returns log p(next = j), shape (N, T); taken cities get -inf.
    """
    u = np.tanh(E @ p["W1"] + (h @ p["W2"])[:, None, :]) @ p["v"]
    u = np.where(taken, -np.inf, u)
    top = u.max(1, keepdims=True)
    return u - top - np.log(np.exp(u - top).sum(1, keepdims=True))


def greedy(p, E, hc, start, steps):
    """Picks `steps` different inputs, one after another. -> (N, steps) ints"""
    N, T, _ = E.shape
    taken = np.zeros((N, T), bool)
    x = np.broadcast_to(start, (N, start.shape[-1]))
    picks = []
    for _ in range(steps):
        hc = lstm_cell(p["cell"], x, hc)
        j = point(p, E, hc[0], taken).argmax(1)
        taken[np.arange(N), j] = True
        x = E[np.arange(N), j]
        picks.append(j)
    return np.stack(picks, 1)
