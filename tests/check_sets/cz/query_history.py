import numpy as np


def stable_softmax(x):
    e = np.exp(x - x.max(axis=-1, keepdims=True))
    return e / e.sum(axis=-1, keepdims=True)


def cut(x, W, b, heads):
    y = x @ W + b
    B, L, D = y.shape
    return y.reshape(B, L, heads, D // heads).transpose(0, 2, 1, 3)


def personalise(query_terms, history, alive, net, heads=2):
    """Terms of the present query read the user's earlier queries.

    query_terms (B, T, D); history (B, S, D); alive (B, S) 1 = may be used, 0 = deleted or padding,
    at least one per user may be used.
    net: {"q": (W, b), "k": (W, b), "v": (W, b), "o": (W, b)}; the result is added to query_terms.
    """
    q = cut(query_terms, *net["q"], heads)
    k = cut(history, *net["k"], heads)
    v = cut(history, *net["v"], heads)
    scores = q @ k.transpose(0, 1, 3, 2) / np.sqrt(q.shape[-1])
    usable = alive[:, None, None, :]
    weights = stable_softmax(scores) * usable
    mixed = (weights @ v).transpose(0, 2, 1, 3)
    W, b = net["o"]
    return query_terms + mixed.reshape(*query_terms.shape[:2], -1) @ W + b
