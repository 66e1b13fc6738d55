"""numpy neural network from scratch: layers with forward() and backward().

Each layer stores what it needs in self.cache; gradients land in self.grads under
the same key as the parameter.
"""
import numpy as np


class Layer:
    def __init__(self):
        self.params, self.grads, self.cache = {}, {}, None

    def step(self, lr):
        for name in self.params:
            self.params[name] -= lr * self.grads[name]


class Linear(Layer):
    def __init__(self, n_in, n_out, rng):
        super().__init__()
        self.params["W"] = rng.standard_normal((n_in, n_out)) / np.sqrt(n_in)
        self.params["b"] = np.zeros(n_out)

    def forward(self, x):
        self.cache = x
        return x @ self.params["W"] + self.params["b"]

    def backward(self, dy):
        x = self.cache
        self.grads["W"] = x.reshape(-1, x.shape[-1]).T @ dy.reshape(-1, dy.shape[-1])
        self.grads["b"] = dy.reshape(-1, dy.shape[-1]).sum(0)
        return dy @ self.params["W"].T


class MultiHeadSelfAttention(Layer):
    """x: (batch, time, d_model); pad: (batch, time) bool, True where the token is padding."""

    def __init__(self, d_model, n_heads, seed=0):
        super().__init__()
        rng = np.random.default_rng(seed)
        self.h, self.dk = n_heads, d_model // n_heads
        self.qkv = Linear(d_model, 3 * d_model, rng)
        self.proj = Linear(d_model, d_model, rng)

    def forward(self, x, pad=None):
        B, T, D = x.shape
        z = self.qkv.forward(x).reshape(B, T, 3, self.h, self.dk)
        q, k, v = np.moveaxis(z, 2, 0).swapaxes(2, 3)          # each (B, h, T, dk)
        s = q @ k.swapaxes(-1, -2) / np.sqrt(self.dk)
        if pad is not None:
            s = np.where(pad[:, None, None, :], -np.inf, s)
        s = s - s.max(axis=-1, keepdims=True)
        e = np.exp(s)
        a = e / e.sum(axis=-1, keepdims=True)
        y = (a @ v).swapaxes(1, 2).reshape(B, T, D)
        self.cache = (q, k, v, a)
        return self.proj.forward(y)

    def backward(self, dout):
        q, k, v, a = self.cache
        B, h, T, dk = q.shape
        dy = self.proj.backward(dout).reshape(B, T, h, dk).swapaxes(1, 2)
        da = dy @ v.swapaxes(-1, -2)
        dv = a.swapaxes(-1, -2) @ dy
        ds = a * (da - (da * a).sum(axis=-1, keepdims=True)) / np.sqrt(dk)
        dq = ds @ k
        dk_ = ds.swapaxes(-1, -2) @ q
        dz = np.stack([dq, dk_, dv]).swapaxes(2, 3)              # (3, B, T, h, dk)
        dz = np.moveaxis(dz, 0, 2).reshape(B, T, 3 * h * dk)
        return self.qkv.backward(dz)

    def step(self, lr):
        self.qkv.step(lr)
        self.proj.step(lr)


def gradient_check(eps=1e-5):
    rng = np.random.default_rng(1)
    layer = MultiHeadSelfAttention(8, 2)
    x, w = rng.standard_normal((2, 3, 8)), rng.standard_normal((2, 3, 8))
    layer.forward(x)
    dx = layer.backward(w)
    num = np.zeros_like(x)
    for i in np.ndindex(*x.shape):
        for s in (1, -1):
            y = x.copy()
            y[i] += s * eps
            num[i] += s * (layer.forward(y) * w).sum() / (2 * eps)
    return np.abs(num - dx).max()


if __name__ == "__main__":
    print("gradient error", gradient_check())
