"""GPT-2's attention written down in NumPy for a lecture, with a session for generation.

c_attn: (C, 3C) weight and (3C,) bias, columns q | k | v, each cut into H heads of d = C / H
neighbouring columns.  Each token attends to itself and to the earlier tokens, the logits being
divided by sqrt(d).
"""
import numpy as np


def softmax(x):
    e = np.exp(x - x.max(axis=-1, keepdims=True))
    return e / e.sum(axis=-1, keepdims=True)


class Session:
    """w = {"attn_w", "attn_b", "proj_w", "proj_b"}; x @ weight + bias everywhere."""

    def __init__(self, w, n_head):
        self.w, self.n_head = w, n_head
        self.k = self.v = None

    def heads(self, x):
        """(B, T, C) -> (B, H, T, d)"""
        b, t, c = x.shape
        return x.reshape(b, self.n_head, t, c // self.n_head)

    def __call__(self, x):
        """x (B, T, C): the whole prompt in the first call, then T = 1 per call.
        Returns (B, T, C)."""
        b, t, c = x.shape
        q, k, v = np.split(x @ self.w["attn_w"] + self.w["attn_b"], 3, axis=-1)
        q, k, v = self.heads(q), self.heads(k), self.heads(v)
        if self.k is not None:
            k = np.concatenate([self.k, k], axis=2)
            v = np.concatenate([self.v, v], axis=2)
        self.k, self.v = k, v
        a = q @ k.transpose(0, 1, 3, 2) / np.sqrt(self.n_head)
        y = softmax(a) @ v
        y = y.transpose(0, 2, 1, 3).reshape(b, t, c)
        return y @ self.w["proj_w"] + self.w["proj_b"]
