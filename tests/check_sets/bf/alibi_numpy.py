import math

import numpy as np

# BLOOM-style decoder attention without any framework (runs on the lab's old Raspberry Pi).


def get_slopes(n):
    """Slopes of the ALiBi paper, also for a number of heads that is no power of two."""
    def power_of_2(n):
        start = 2 ** (-(2 ** -(math.log2(n) - 3)))
        return [start * start ** i for i in range(n)]

    if math.log2(n).is_integer():
        return power_of_2(n)
    c = 2 ** math.floor(math.log2(n))
    return power_of_2(c) + get_slopes(2 * c)[0::2][: n - c]


def layer_norm(x, g, b, eps=1e-5):
    mu = x.mean(-1, keepdims=True)
    return (x - mu) / np.sqrt(x.var(-1, keepdims=True) + eps) * g + b


def softmax(x):
    x = x - x.max(-1, keepdims=True)
    np.exp(x, out=x)
    x /= x.sum(-1, keepdims=True)
    return x


def heads(x, n):
    return x.reshape(x.shape[0], n, -1).swapaxes(0, 1)


class BloomAttention:
    """params: dict with ln_g, ln_b, wq, wk, wv, wo, each weight stored as (in, out)."""

    def __init__(self, params, n_head):
        self.p, self.n = params, n_head
        self.slopes = np.array(get_slopes(n_head))
        self.reset()

    def reset(self):
        self.k = self.v = None

    def __call__(self, x):
        """x (T, E): the next T tokens; earlier ones are remembered."""
        p = self.p
        h = layer_norm(x, p["ln_g"], p["ln_b"])
        q, k, v = (heads(h @ p[w], self.n) for w in ("wq", "wk", "wv"))
        if self.k is not None:
            k = np.concatenate([self.k, k], axis=1)
            v = np.concatenate([self.v, v], axis=1)
        self.k, self.v = k, v
        T, S = q.shape[1], k.shape[1]
        rel = np.arange(S)[None, :] - np.arange(S - T, S)[:, None]   # <= 0 in the past
        s = np.einsum("htd,hsd->hts", q, k) / math.sqrt(q.shape[-1])
        s = s + self.slopes[:, None, None] * rel
        s = np.where(rel > 0, -np.inf, s)
        y = softmax(s) @ v
        return x + y.swapaxes(0, 1).reshape(T, -1) @ p["wo"]


def random_params(e, seed=0):
    r = np.random.default_rng(seed)
    p = {w: r.normal(size=(e, e)) / np.sqrt(e) for w in ("wq", "wk", "wv", "wo")}
    return {**p, "ln_g": np.ones(e), "ln_b": np.zeros(e)}
