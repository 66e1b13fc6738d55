"""
Port of TransformerLite.jl to numpy, keeps julia's names where possible.

Julia:   A : (dh, N, nhead*B)   column major
here :   A : (nhead*B, N, dh)   row major, so the same bytes

`mul4d`, `NNlib.softmax`, `make_causal_mask` all have counterparts below.
"""
import numpy as np


def make_causal_mask(n):
    """true where attention is allowed (key <= query), indexed [query, key]"""
    return np.tri(n, dtype=bool)


def nnlib_softmax(x):
    mx = x.max(axis=-1, keepdims=True)
    out = np.exp(x - mx)
    return out / np.exp(x).sum(axis=-1, keepdims=True)


def scaled_dot(query, key, value, mask=None):
    """query [..., N, dh], key/value [..., M, dh] -> (out, attention), rows of attention sum to 1"""
    dh = query.shape[-1]
    atten = query @ np.swapaxes(key, -1, -2) / np.sqrt(dh)
    if mask is not None:
        atten = np.where(mask, atten, -1e9)
    atten = nnlib_softmax(atten)
    return atten @ value, atten


class Dense:
    def __init__(self, rng, n_in, n_out, act=None):
        s = np.sqrt(6 / (n_in + n_out))
        self.W = rng.uniform(-s, s, (n_out, n_in))
        self.b = np.zeros(n_out)
        self.act = act

    def __call__(self, x):
        y = x @ self.W.T + self.b
        return y if self.act is None else self.act(y)


class MultiHeadAttention:
    def __init__(self, rng, nhead, dm, dh, dout):
        self.nhead = nhead
        self.denseQ = Dense(rng, dm, dh * nhead)
        self.denseK = Dense(rng, dm, dh * nhead)
        self.denseV = Dense(rng, dm, dh * nhead)
        self.denseO = Dense(rng, dh * nhead, dout)

    def heads(self, A):
        b, n, d = A.shape
        A = A.reshape(b, n, self.nhead, d // self.nhead)
        return A.transpose(0, 2, 1, 3).reshape(b * self.nhead, n, -1)

    def __call__(self, query, key=None, value=None, mask=None):
        key = query if key is None else key
        value = key if value is None else value
        b, n, _ = query.shape
        A, _ = scaled_dot(self.heads(self.denseQ(query)), self.heads(self.denseK(key)),
                          self.heads(self.denseV(value)), mask)
        A = A.reshape(b, self.nhead, n, -1).transpose(0, 2, 1, 3).reshape(b, n, -1)
        return self.denseO(A)


class TransformerBlock:
    def __init__(self, rng, nhead, dm, dhid):
        self.mha = MultiHeadAttention(rng, nhead, dm, dm // nhead, dm)
        self.d1 = Dense(rng, dm, dhid, lambda z: np.maximum(z, 0))
        self.d2 = Dense(rng, dhid, dm)

    @staticmethod
    def norm(x):
        return (x - x.mean(-1, keepdims=True)) / (x.std(-1, keepdims=True) + 1e-5)

    def __call__(self, x, mask=None):
        x = self.norm(x + self.mha(x, mask=mask))
        return self.norm(x + self.d2(self.d1(x)))
