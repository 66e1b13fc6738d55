"""HW4 - multi-head attention with a manual backward pass. NumPy only, no autograd allowed.

x: (N, T, D).  mask: (T, T) or (N, 1, T, T) boolean, True means "may attend".
"""
import numpy as np


class Linear:
    def __init__(self, n_in, n_out, rng):
        self.W = rng.normal(0, n_in ** -0.5, (n_in, n_out))
        self.b = np.zeros(n_out)
        self.dW = np.zeros_like(self.W)
        self.db = np.zeros_like(self.b)

    def forward(self, x):
        self.x = x
        return x @ self.W + self.b

    def backward(self, dout):
        self.dW = np.einsum("nti,nto->io", self.x, dout)
        self.db = dout.sum((0, 1))
        return dout @ self.W.T


class MultiHeadSelfAttention:
    def __init__(self, dim, num_heads, seed=0):
        assert dim % num_heads == 0, "dim must be divisible by num_heads"
        rng = np.random.default_rng(seed)
        self.H, self.dh = num_heads, dim // num_heads
        self.q_proj, self.k_proj, self.v_proj, self.o_proj = (Linear(dim, dim, rng) for _ in range(4))

    def _split(self, x):
        N, T, _ = x.shape
        return x.reshape(N, T, self.H, self.dh).transpose(0, 2, 1, 3)

    def _join(self, x):
        N, _, T, _ = x.shape
        return x.transpose(0, 2, 1, 3).reshape(N, T, -1)

    def forward(self, x, mask=None):
        Q = self._split(self.q_proj.forward(x))
        K = self._split(self.k_proj.forward(x))
        V = self._split(self.v_proj.forward(x))
        S = Q @ K.swapaxes(-1, -2) / np.sqrt(self.dh)
        if mask is not None:
            S = np.where(mask, S, np.finfo(S.dtype).min)
        S = S - S.max(axis=-1, keepdims=True)
        P = np.exp(S)
        P /= P.sum(axis=-1, keepdims=True)
        self.cache = (Q, K, V, P)
        return self.o_proj.forward(self._join(P @ V))

    def backward(self, dout):
        Q, K, V, P = self.cache
        dO = self._split(self.o_proj.backward(dout))
        dV = P.swapaxes(-1, -2) @ dO
        dP = dO @ V.swapaxes(-1, -2)
        dS = P * (dP - (dP * P).sum(axis=-1, keepdims=True))
        dS /= np.sqrt(self.dh)
        dQ = dS @ K
        dK = dS.swapaxes(-1, -2) @ Q
        dx = self.q_proj.backward(self._join(dQ))
        dx += self.k_proj.backward(self._join(dK))
        dx += self.v_proj.backward(self._join(dV))
        return dx

    def params(self):
        for lin in (self.q_proj, self.k_proj, self.v_proj, self.o_proj):
            yield lin.W, lin.dW
            yield lin.b, lin.db


class Adam:
    def __init__(self, layer, lr=1e-3, b1=0.9, b2=0.999):
        self.layer, self.lr, self.b1, self.b2, self.t = layer, lr, b1, b2, 0
        self.m = [np.zeros_like(p) for p, _ in layer.params()]
        self.v = [np.zeros_like(p) for p, _ in layer.params()]

    def step(self):
        self.t += 1
        for i, (p, g) in enumerate(self.layer.params()):
            self.m[i] = self.b1 * self.m[i] + (1 - self.b1) * g
            self.v[i] = self.b2 * self.v[i] + (1 - self.b2) * g * g
            mh = self.m[i] / (1 - self.b1 ** self.t)
            vh = self.v[i] / (1 - self.b2 ** self.t)
            p -= self.lr * mh / (np.sqrt(vh) + 1e-8)


def grad_check(layer, x, mask=None, eps=1e-5, n=10, seed=1):
    rng = np.random.default_rng(seed)
    r = rng.normal(size=x.shape)
    layer.forward(x, mask)
    dx = layer.backward(r)
    worst = 0.0
    for _ in range(n):
        i = tuple(rng.integers(0, s) for s in x.shape)
        a, b = x.copy(), x.copy()
        a[i] += eps
        b[i] -= eps
        num = ((layer.forward(a, mask) - layer.forward(b, mask)) * r).sum() / (2 * eps)
        worst = max(worst, abs(num - dx[i]) / max(1e-8, abs(num) + abs(dx[i])))
    return worst


if __name__ == "__main__":
    rng = np.random.default_rng(0)
    net = MultiHeadSelfAttention(12, 3)
    print("max rel. error:", grad_check(net, rng.normal(size=(2, 5, 12)), np.tri(5, dtype=bool)))
