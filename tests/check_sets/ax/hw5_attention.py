# HW5, part 2: attention layer with backward pass, numpy only
# run the gradient check with  python hw5_attention.py
import numpy as np


class Linear:
    def __init__(self, din, dout, rng):
        self.W = rng.standard_normal((din, dout)) * np.sqrt(1.0 / din)
        self.b = np.zeros(dout)
        self.dW = np.zeros_like(self.W)
        self.db = np.zeros_like(self.b)

    def forward(self, x):
        self.x = x
        return x @ self.W + self.b

    def backward(self, dy):
        x2 = self.x.reshape(-1, self.x.shape[-1])
        d2 = dy.reshape(-1, dy.shape[-1])
        self.dW += x2.T @ d2
        self.db += d2.sum(0)
        return dy @ self.W.T


class MultiHeadAttention:
    """
    y = MHA(x_q, x_kv).   x_q (N, T, D), x_kv (N, S, D)
    mask: (N, T, S) or (T, S), 1 = may look, 0 = may not look, or None.
    If a row may look nowhere its output is zero (before the output layer), and so is its gradient.
    """

    def __init__(self, D, H, seed=0):
        assert D % H == 0
        rng = np.random.default_rng(seed)
        self.D, self.H, self.d = D, H, D // H
        self.q_layer = Linear(D, D, rng)
        self.k_layer = Linear(D, D, rng)
        self.v_layer = Linear(D, D, rng)
        self.o_layer = Linear(D, D, rng)

    def _split(self, a):
        N, L, _ = a.shape
        return a.reshape(N, L, self.H, self.d).transpose(0, 2, 1, 3)

    def _join(self, a):
        N, H, L, d = a.shape
        return a.transpose(0, 2, 1, 3).reshape(N, L, H * d)

    def forward(self, x_q, x_kv, mask=None):
        Q = self._split(self.q_layer.forward(x_q))
        K = self._split(self.k_layer.forward(x_kv))
        V = self._split(self.v_layer.forward(x_kv))

        S = np.matmul(Q, np.swapaxes(K, 2, 3)) / np.sqrt(self.d)
        if mask is None:
            m = np.ones((1, 1) + S.shape[2:], bool)
        else:
            m = np.asarray(mask).astype(bool)
            m = m[None, None] if m.ndim == 2 else m[:, None]
        S = np.where(m, S, -np.inf)
        biggest = S.max(axis=-1, keepdims=True)
        biggest = np.where(np.isfinite(biggest), biggest, 0.0)
        E = np.exp(S - biggest)
        Z = E.sum(axis=-1, keepdims=True)
        P = E / np.where(Z == 0, 1.0, Z)

        self.Q, self.K, self.V, self.P = Q, K, V, P
        return self.o_layer.forward(self._join(np.matmul(P, V)))

    def backward(self, dy):
        """ returns dx_q, dx_kv """
        dA = self._split(self.o_layer.backward(dy))
        dP = np.matmul(dA, np.swapaxes(self.V, 2, 3))
        dV = np.matmul(np.swapaxes(self.P, 2, 3), dA)
        # softmax: dS = P * (dP - sum_j P_j dP_j);  P is zero where masked so dS is too
        dS = self.P * (dP - (dP * self.P).sum(axis=-1, keepdims=True))
        dS = dS / np.sqrt(self.d)
        dQ = np.matmul(dS, self.K)
        dK = np.matmul(np.swapaxes(dS, 2, 3), self.Q)
        dx_q = self.q_layer.backward(self._join(dQ))
        dx_kv = self.k_layer.backward(self._join(dK)) + self.v_layer.backward(self._join(dV))
        return dx_q, dx_kv


def numeric_grad(f, x, h=1e-6):
    g = np.zeros_like(x)
    it = np.nditer(x, flags=["multi_index"])
    for _ in it:
        i = it.multi_index
        old = x[i]
        x[i] = old + h
        up = f()
        x[i] = old - h
        down = f()
        x[i] = old
        g[i] = (up - down) / (2 * h)
    return g


def check():
    rng = np.random.default_rng(1)
    layer = MultiHeadAttention(6, 2)
    a, b = rng.standard_normal((2, 3, 6)), rng.standard_normal((2, 4, 6))
    m = rng.random((2, 3, 4)) > 0.3
    r = rng.standard_normal((2, 3, 6))
    f = lambda: (layer.forward(a, b, m) * r).sum()
    f()
    da, db = layer.backward(r)
    return np.abs(da - numeric_grad(f, a)).max(), np.abs(db - numeric_grad(f, b)).max()


if __name__ == "__main__":
    print("max error dx_q, dx_kv:", check())
