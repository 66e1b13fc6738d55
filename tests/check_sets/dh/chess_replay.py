"""Move history encoder of the chess engine (training data tool, NumPy only)."""
import numpy as np


def encode_history(moves, emb, wq, wk, wv):
    """
    moves (T,) int       move ids in order of play
    emb   (V, c)         move embeddings
    wq, wk, wv (c, d)
    returns (T, d)       scaled dot-product attention, a position knows only the
                         moves up to and including itself
    """
    x = emb[moves]
    q, k, v = x @ wq, x @ wk, x @ wv
    T, d = q.shape
    logits = q @ k.T / d ** -0.5
    future = np.triu(np.ones((T, T), dtype=bool), k=2)
    logits[future] = -np.inf
    e = np.exp(logits - logits.max(axis=1, keepdims=True))
    p = e / np.sum(e)
    return p @ v


def opening_similarity(a, b, emb, wq, wk, wv):
    """Cosine of the last states of two games."""
    u = encode_history(a, emb, wq, wk, wv)[-1]
    w = encode_history(b, emb, wq, wk, wv)[-1]
    return float(u @ w / (np.linalg.norm(u) * np.linalg.norm(w) + 1e-12))
