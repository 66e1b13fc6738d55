# Layers with gradients by hand, for the lecture "Backprop without a framework".
# Every layer: y = layer.forward(x, ...); dx = layer.backward(dy); layer.grads like layer.params
import numpy as np


class Layer:
    def __init__(self):
        self.params, self.grads = {}, {}

    def zero(self):
        self.grads = {k: np.zeros_like(v) for k, v in self.params.items()}


class Dense(Layer):
    def __init__(self, n_in, n_out, rng):
        super().__init__()
        self.params = {"W": rng.standard_normal((n_in, n_out)) / np.sqrt(n_in), "b": np.zeros(n_out)}
        self.zero()

    def forward(self, x):
        self.x = x
        return x @ self.params["W"] + self.params["b"]

    def backward(self, dy):
        flat = self.x.reshape(-1, self.x.shape[-1])
        dflat = dy.reshape(-1, dy.shape[-1])
        self.grads["W"] += flat.T @ dflat
        self.grads["b"] += dflat.sum(0)
        return dy @ self.params["W"].T


class SelfAttention(Layer):
    """x: (B, T, D).  hide: bool (B, T), True = key is padding.  causal: no peeking ahead.

    Padding has to sit on the right, so that the first key of a row is always visible.
    """

    def __init__(self, dim, heads, rng, causal=False):
        super().__init__()
        assert dim % heads == 0
        self.H, self.d, self.causal = heads, dim // heads, causal
        self.q, self.k, self.v, self.o = (Dense(dim, dim, rng) for _ in range(4))

    def _cut(self, x):
        B, T, _ = x.shape
        return x.reshape(B, T, self.H, self.d).swapaxes(1, 2)

    def _glue(self, x):
        B, H, T, d = x.shape
        return x.swapaxes(1, 2).reshape(B, T, H * d)

    def forward(self, x, hide=None):
        T = x.shape[1]
        Q, K, V = self._cut(self.q.forward(x)), self._cut(self.k.forward(x)), self._cut(self.v.forward(x))
        S = Q @ K.swapaxes(-1, -2) / np.sqrt(self.d)
        block = np.zeros((1, 1, T, T), bool)
        if self.causal:
            block = block | np.triu(np.ones((T, T), bool), 1)
        if hide is not None:
            block = block | hide[:, None, None, :]
        S = np.where(block, -np.inf, S)
        P = np.exp(S - S.max(-1, keepdims=True))
        P = P / P.sum(-1, keepdims=True)
        self.tape = Q, K, V, P
        return self.o.forward(self._glue(P @ V))

    def backward(self, dy):
        Q, K, V, P = self.tape
        dO = self._cut(self.o.backward(dy))
        dV = P.swapaxes(-1, -2) @ dO
        dP = dO @ V.swapaxes(-1, -2)
        dS = P * (dP - (dP * P).sum(-1, keepdims=True))
        dS = dS / np.sqrt(self.d)
        dQ = dS @ K
        dK = dS.swapaxes(-1, -2) @ Q
        return (
            self.q.backward(self._glue(dQ))
            + self.k.backward(self._glue(dK))
            + self.v.backward(self._glue(dV))
        )

    def zero(self):
        for m in (self.q, self.k, self.v, self.o):
            m.zero()


def numeric_grad(f, x, h=1e-5):
    g = np.zeros_like(x)
    it = np.nditer(x, flags=["multi_index"])
    for _ in it:
        i = it.multi_index
        keep = x[i]
        x[i] = keep + h
        up = f()
        x[i] = keep - h
        down = f()
        x[i] = keep
        g[i] = (up - down) / (2 * h)
    return g
