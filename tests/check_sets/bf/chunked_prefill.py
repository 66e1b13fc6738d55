"""numpy LLM runtime, chunked prefill. The prompt is fed in chunks; each chunk attends
causally to everything that was fed before it and to itself."""
import numpy as np


def softmax(a, axis=-1):
    a = a - np.max(a, axis=axis, keepdims=True)
    e = np.exp(a)
    return e / np.sum(e, axis=axis, keepdims=True)


def causal_mask(n_q, n_k):
    """True where the query may look."""
    return np.tril(np.ones((n_q, n_k), dtype=bool))


class Cache:
    def __init__(self):
        self.items = []

    def extend(self, k, v):
        self.items.append((k, v))
        return (np.concatenate([a for a, _ in self.items], axis=-2),
                np.concatenate([b for _, b in self.items], axis=-2))


class AttentionLayer:
    def __init__(self, w, n_heads):
        self.w = w
        self.n_heads = n_heads

    def split(self, x):
        t, e = x.shape
        return x.reshape(t, self.n_heads, e // self.n_heads).transpose(1, 0, 2)

    def __call__(self, x, cache=None):
        q, k, v = [self.split(x @ self.w[n]) for n in "qkv"]
        if cache is not None:
            k, v = cache.extend(k, v)
        scores = q @ k.transpose(0, 2, 1) / np.sqrt(q.shape[-1])
        scores = np.where(causal_mask(q.shape[1], k.shape[1]), scores, -np.inf)
        y = softmax(scores) @ v
        return y.transpose(1, 0, 2).reshape(x.shape) @ self.w["o"]


def prefill(layer, x, chunk=4):
    cache = Cache()
    out = [layer(x[i:i + chunk], cache) for i in range(0, len(x), chunk)]
    return np.concatenate(out), cache


def init(e, seed=0):
    r = np.random.RandomState(seed)
    return {n: r.randn(e, e) * e ** -0.5 for n in "qkvo"}
