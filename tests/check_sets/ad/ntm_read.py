"""Content based addressing over a memory, several read heads."""
import numpy as np


def unit(x, axis, eps=1e-8):
    return x / (np.linalg.norm(x, axis=axis, keepdims=True) + eps)


def content_weights(keys, memory, beta):
    """
    keys    batch x heads x word
    memory  batch x slots x word
    beta    batch x heads, > 0

    softmax over the slots of beta * cosine(key, slot)
    """
    k = unit(keys, axis=2)
    m = unit(memory, axis=1)
    sim = np.einsum("bhw,bsw->bhs", k, m)
    z = beta[:, :, None] * sim
    z = z - z.max(axis=2, keepdims=True)
    e = np.exp(z)
    return e / e.sum(axis=2, keepdims=True)


def read(keys, memory, beta):
    w = content_weights(keys, memory, beta)
    return np.einsum("bhs,bsw->bhw", w, memory), w


def write(memory, w, erase, add):
    """w batch x slots; erase, add batch x word"""
    gone = 1 - w[:, :, None] * erase[:, None, :]
    return memory * gone + w[:, :, None] * add[:, None, :]


class ReadHeads:
    def __init__(self, state, heads, word, seed=0):
        r = np.random.default_rng(seed)
        self.wk = r.normal(scale=state ** -0.5, size=(state, heads, word))
        self.wb = r.normal(scale=state ** -0.5, size=(state, heads))

    def __call__(self, h, memory):
        keys = np.tensordot(h, self.wk, 1)
        beta = np.log1p(np.exp(h @ self.wb))
        return read(keys, memory, beta)
