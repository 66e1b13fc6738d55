"""A tiny reverse-mode engine over NumPy arrays, plus enough layers to train a
character model with self-attention on a laptop."""
import numpy as np


def _unbroadcast(g, shape):
    while g.ndim > len(shape):
        g = g.sum(0)
    for ax, n in enumerate(shape):
        if n == 1 and g.shape[ax] != 1:
            g = g.sum(ax, keepdims=True)
    return g


class T:
    """A node of the graph."""

    def __init__(self, data, parents=()):
        self.data = np.asarray(data, dtype=np.float64)
        self.grad = np.zeros_like(self.data)
        self._parents = parents
        self._backward = lambda: None

    def _acc(self, g):
        self.grad += _unbroadcast(g, self.data.shape)

    def __add__(self, other):
        other = other if isinstance(other, T) else T(other)
        out = T(self.data + other.data, (self, other))

        def back():
            self._acc(out.grad)
            other._acc(out.grad)
        out._backward = back
        return out

    def __mul__(self, other):
        other = other if isinstance(other, T) else T(other)
        out = T(self.data * other.data, (self, other))

        def back():
            self._acc(out.grad * other.data)
            other._acc(out.grad * self.data)
        out._backward = back
        return out

    def __matmul__(self, other):
        out = T(self.data @ other.data, (self, other))

        def back():
            self._acc(out.grad @ other.data.swapaxes(-1, -2))
            other._acc(self.data.swapaxes(-1, -2) @ out.grad)
        out._backward = back
        return out

    @property
    def mT(self):
        out = T(self.data.swapaxes(-1, -2), (self,))

        def back():
            self._acc(out.grad.swapaxes(-1, -2))
        out._backward = back
        return out

    def exp(self):
        out = T(np.exp(self.data), (self,))

        def back():
            self._acc(out.grad * out.data)
        out._backward = back
        return out

    def pow(self, n):
        out = T(self.data ** n, (self,))

        def back():
            self._acc(out.grad * n * self.data ** (n - 1))
        out._backward = back
        return out

    def sum(self, axis):
        out = T(self.data.sum(axis, keepdims=True), (self,))

        def back():
            self._acc(np.broadcast_to(out.grad, self.data.shape))
        out._backward = back
        return out

    def softmax(self):
        """Over the last axis."""
        peak = T(self.data.max(-1, keepdims=True))
        shifted = self + peak * -1.0
        num = shifted.exp()
        den = self.exp().sum(-1)
        return num * den.pow(-1)

    def backward(self):
        topo, seen = [], set()

        def visit(n):
            if id(n) not in seen:
                seen.add(id(n))
                for p in n._parents:
                    visit(p)
                topo.append(n)
        visit(self)
        self.grad = np.ones_like(self.data)
        for n in reversed(topo):
            n._backward()


class Attn:
    """Single-head causal self-attention on [batch, time, width]."""

    def __init__(self, width, rng):
        g = lambda: T(rng.normal(0, width ** -0.5, (width, width)))
        self.wq, self.wk, self.wv = g(), g(), g()
        self.width = width

    def __call__(self, x):
        q, k, v = x @ self.wq, x @ self.wk, x @ self.wv
        t = x.data.shape[-2]
        future = np.triu(np.full((t, t), -1e30), 1)
        att = ((q @ k.mT) * self.width ** -0.5 + future).softmax()
        return att @ v

    def parameters(self):
        yield from (self.wq, self.wk, self.wv)


def sgd(params, lr):
    for p in params:
        p.data -= lr * p.grad
        p.grad[...] = 0
