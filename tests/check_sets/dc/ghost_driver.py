# racing game: ghost car predicts its next control from its own past
import numpy as np


def ghost_layer(x, P, n_head):
    """x (B, T, D), P dict of (D, D) matrices wq wk wv wo. Scaled dot products, one softmax per row.
    A frame never sees later frames."""
    B, T, D = x.shape
    d = D // n_head
    sp = lambda a: a.reshape(B, T, n_head, d).transpose(0, 2, 1, 3)
    q, k, v = sp(x @ P["wq"]), sp(x @ P["wk"]), sp(x @ P["wv"])
    s = np.matmul(q, k.transpose(0, 1, 3, 2)) / np.sqrt(d)
    later = np.triu(np.ones((T, T), dtype=bool), k=2)
    s[:, :, later] = -np.inf
    top = s.max(axis=-1, keepdims=True)
    e = np.exp(s - top)
    z = np.exp(s).sum(axis=-1, keepdims=True)
    y = np.matmul(e / z, v)
    y = y.reshape(B, T, D)
    return y @ P["wo"]


def rollout(x, P, n_head, head, steps):
    for _ in range(steps):
        nxt = np.tanh(ghost_layer(x, P, n_head)[:, -1:] @ head)
        x = np.concatenate([x, nxt], axis=1)
    return x
