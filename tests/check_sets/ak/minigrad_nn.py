"""minigrad.nn -- layers with hand-written backward passes, for the course.

Every layer keeps what it needs in forward() and hands the gradient of its input back from
backward(). Gradients of the parameters pile up in `grads`.
"""
import numpy as np


class Layer:
    def __init__(self):
        self.params, self.grads = {}, {}
        self.training = True

    def children(self):
        return [v for v in vars(self).values() if isinstance(v, Layer)]

    def zero_grad(self):
        for k, p in self.params.items():
            self.grads[k] = np.zeros_like(p)
        for c in self.children():
            c.zero_grad()

    def step(self, lr):
        for k in self.params:
            self.params[k] -= lr * self.grads[k]
        for c in self.children():
            c.step(lr)

    def __call__(self, *args, **kw):
        return self.forward(*args, **kw)


class Affine(Layer):
    def __init__(self, n_in, n_out, rng):
        super().__init__()
        self.params = {"W": rng.normal(0, n_in ** -0.5, (n_in, n_out)), "b": np.zeros(n_out)}
        self.zero_grad()

    def forward(self, x):
        self.x = x
        return x @ self.params["W"] + self.params["b"]

    def backward(self, dy):
        flat = self.x.reshape(-1, self.x.shape[-1])
        g = dy.reshape(-1, dy.shape[-1])
        self.grads["W"] += flat.T @ g
        self.grads["b"] += g.sum(0)
        return dy @ self.params["W"].T


class Softmax(Layer):
    """Over the last axis."""

    def forward(self, x):
        e = np.exp(x - x.max(axis=-1, keepdims=True))
        self.y = e / e.sum(axis=-1, keepdims=True)
        return self.y

    def backward(self, dy):
        return self.y * (dy - (dy * self.y).sum(axis=-1, keepdims=True))


class MultiHeadAttention(Layer):
    """x_q (B, Lq, E), x_kv (B, Lk, E). `mask` broadcasts to (B, 1, Lq, Lk); True = may look."""

    def __init__(self, dim, heads, rng):
        super().__init__()
        if dim % heads:
            raise ValueError("heads must divide dim")
        self.H, self.d = heads, dim // heads
        self.wq, self.wk = Affine(dim, dim, rng), Affine(dim, dim, rng)
        self.wv, self.wo = Affine(dim, dim, rng), Affine(dim, dim, rng)
        self.softmax = Softmax()

    def _split(self, x):
        B, L, _ = x.shape
        return x.reshape(B, L, self.H, self.d).swapaxes(1, 2)

    def _merge(self, x):
        B, _, L, _ = x.shape
        return x.swapaxes(1, 2).reshape(B, L, self.H * self.d)

    def forward(self, x_q, x_kv=None, mask=None):
        self.is_self = x_kv is None
        x_kv = x_q if x_kv is None else x_kv
        self.q = self._split(self.wq(x_q))
        self.k = self._split(self.wk(x_kv))
        self.v = self._split(self.wv(x_kv))
        s = self.q @ self.k.swapaxes(-1, -2) / np.sqrt(self.d)
        if mask is not None:
            s = np.where(mask, s, -1e30)
        self.a = self.softmax(s)
        return self.wo(self._merge(self.a @ self.v))

    def backward(self, dy):
        do = self._split(self.wo.backward(dy))
        dv = self.a.swapaxes(-1, -2) @ do
        ds = self.softmax.backward(do @ self.v.swapaxes(-1, -2)) / np.sqrt(self.d)
        dq = ds @ self.k
        dk = ds.swapaxes(-1, -2) @ self.q
        dx_q = self.wq.backward(self._merge(dq))
        dx_kv = self.wk.backward(self._merge(dk)) + self.wv.backward(self._merge(dv))
        return dx_q + dx_kv if self.is_self else (dx_q, dx_kv)


class Residual(Layer):
    def __init__(self, inner):
        super().__init__()
        self.inner = inner

    def forward(self, x, **kw):
        return x + self.inner(x, **kw)

    def backward(self, dy):
        return dy + self.inner.backward(dy)


def causal(n):
    return np.tril(np.ones((n, n), dtype=bool))[None, None]


if __name__ == "__main__":
    rng = np.random.default_rng(1)
    net = Residual(MultiHeadAttention(16, 4, rng))
    x, target = rng.normal(size=(2, 5, 16)), rng.normal(size=(2, 5, 16))
    for it in range(30):
        net.zero_grad()
        y = net(x, mask=causal(5))
        net.backward(2 * (y - target) / y.size)
        net.step(0.5)
        if it % 10 == 0:
            print(it, ((y - target) ** 2).mean())
