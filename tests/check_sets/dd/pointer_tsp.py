import numpy as np


def pointer_step(enc, dec, W1, W2, v, besucht):
    """
    One step of a pointer network:  u_j = v . tanh(W1 e_j + W2 d),  p = softmax(u).

    enc      (B, n, h)  encoder states of the n cities
    dec      (B, h)     decoder state
    W1, W2   (h, a)     v  (a,)
    besucht  (B, n)     True for cities already on the tour (never all of them)

    returns  (B, n) probabilities of the next city and (B, h) glimpse
    """
    u = np.tanh(enc @ W1 + (dec @ W2)[:, None, :]) @ v
    u = np.where(besucht, -np.inf, u)
    u = u - u.max(axis=1, keepdims=True)
    p = np.exp(u)
    p /= p.sum(axis=1, keepdims=True)
    return p, np.einsum("bn,bnh->bh", p, enc)


def greedy_tour(enc, W1, W2, v):
    B, n, _ = enc.shape
    besucht = np.zeros((B, n), dtype=bool)
    d = enc.mean(axis=1)
    tour = []
    for _ in range(n):
        p, _ = pointer_step(enc, d, W1, W2, v, besucht)
        stadt = p.argmax(axis=1)
        besucht[np.arange(B), stadt] = True
        d = enc[np.arange(B), stadt]
        tour.append(stadt)
    return np.stack(tour, axis=1)
