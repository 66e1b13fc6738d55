"""
CS homework 3 - layers with explicit forward / backward passes.
All layers keep what the backward pass needs in self.cache.
"""
import numpy as np


class Linear:
    def __init__(self, n_in, n_out, rng):
        self.W = rng.standard_normal((n_in, n_out)) * np.sqrt(1.0 / n_in)
        self.b = np.zeros(n_out)

    def forward(self, x):
        self.cache = x
        return x @ self.W + self.b

    def backward(self, dout):
        x = self.cache
        self.dW = x.reshape(-1, x.shape[-1]).T @ dout.reshape(-1, dout.shape[-1])
        self.db = dout.reshape(-1, dout.shape[-1]).sum(0)
        return dout @ self.W.T


def softmax_forward(x):
    x = x - np.max(x, axis=-1, keepdims=True)
    e = np.exp(x)
    return e / np.sum(e, axis=-1, keepdims=True)


def softmax_backward(p, dp):
    return p * (dp - np.sum(dp * p, axis=-1, keepdims=True))


class MultiHeadSelfAttention:
    """
    Parameters
    ----------
    embed_dim : int
    num_heads : int

    forward(x, mask)
        x    : (N, T, embed_dim)
        mask : (T, T) or (N, 1, T, T), 0 where a query may not look at a key
    """

    def __init__(self, embed_dim, num_heads, seed=231):
        rng = np.random.default_rng(seed)
        self.D, self.H = embed_dim, num_heads
        self.q_proj = Linear(embed_dim, embed_dim, rng)
        self.k_proj = Linear(embed_dim, embed_dim, rng)
        self.v_proj = Linear(embed_dim, embed_dim, rng)
        self.out_proj = Linear(embed_dim, embed_dim, rng)

    def _split(self, x):
        N, T, D = x.shape
        return x.reshape(N, T, self.H, D // self.H).transpose(0, 2, 1, 3)

    def _merge(self, x):
        N, H, T, d = x.shape
        return x.transpose(0, 2, 1, 3).reshape(N, T, H * d)

    def forward(self, x, mask=None):
        q = self._split(self.q_proj.forward(x))
        k = self._split(self.k_proj.forward(x))
        v = self._split(self.v_proj.forward(x))
        scale = 1.0 / np.sqrt(self.D // self.H)

        scores = np.matmul(q, k.transpose(0, 1, 3, 2)) * scale
        if mask is not None:
            scores = np.where(mask == 0, 1e-9, scores)
        p = softmax_forward(scores)
        out = np.matmul(p, v)
        self.cache = (q, k, v, p, scale, mask)
        return self.out_proj.forward(self._merge(out))

    def backward(self, dout):
        q, k, v, p, scale, mask = self.cache
        dctx = self._split(self.out_proj.backward(dout))
        dv = np.matmul(p.transpose(0, 1, 3, 2), dctx)
        dp = np.matmul(dctx, v.transpose(0, 1, 3, 2))
        ds = softmax_backward(p, dp)
        if mask is not None:
            ds = np.where(mask == 0, 0.0, ds)
        dq = np.matmul(ds, k) * scale
        dk = np.matmul(ds.transpose(0, 1, 3, 2), q) * scale
        dx = self.q_proj.backward(self._merge(dq))
        dx = dx + self.k_proj.backward(self._merge(dk))
        dx = dx + self.v_proj.backward(self._merge(dv))
        return dx
