import numpy as np


def melodie_lesen(anfrage, archiv, klang, temperatur=0.1):
    """Hummed melody against an archive, by cosine similarity.

    anfrage (B, Q, D), archiv (B, N, D), klang (B, N, M). Every query frame takes the softmax
    of its cosines with the archive frames, over temperatur, and reads the klang vectors: (B, Q, M).
    """
    eps = 1e-8
    a = anfrage / (np.linalg.norm(anfrage, axis=-1, keepdims=True) + eps)
    b = archiv / (np.linalg.norm(archiv, axis=-2, keepdims=True) + eps)
    s = a @ b.transpose(0, 2, 1) / temperatur
    s = s - s.max(axis=-1, keepdims=True)
    w = np.exp(s)
    w /= w.sum(axis=-1, keepdims=True)
    return w @ klang
