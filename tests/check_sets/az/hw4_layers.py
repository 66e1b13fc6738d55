"""
CS 6740 Deep Learning, Homework 4 (part B)
Name: J. Okafor          Collaborators: none

Every layer has forward(), which stores what backward() needs in self.cache,
and backward(dout), which fills self.grads and returns the gradient for the
input.  Shapes: B batch, T tokens, C model width, H heads, D = C / H.
"""
import numpy as np


class Linear:
    def __init__(self, n_in, n_out, rng):
        lim = np.sqrt(6.0 / (n_in + n_out))
        self.params = {"W": rng.uniform(-lim, lim, (n_in, n_out)), "b": np.zeros(n_out)}
        self.grads = {}

    def forward(self, x):
        self.cache = x
        return x @ self.params["W"] + self.params["b"]

    def backward(self, dout):
        x = self.cache
        flat_x = x.reshape(-1, x.shape[-1])
        flat_d = dout.reshape(-1, dout.shape[-1])
        self.grads["W"] = flat_x.T @ flat_d
        self.grads["b"] = flat_d.sum(0)
        return dout @ self.params["W"].T


class LayerNorm:
    def __init__(self, n, eps=1e-5):
        self.params = {"g": np.ones(n), "b": np.zeros(n)}
        self.grads = {}
        self.eps = eps

    def forward(self, x):
        mu = x.mean(-1, keepdims=True)
        inv = 1.0 / np.sqrt(x.var(-1, keepdims=True) + self.eps)
        xhat = (x - mu) * inv
        self.cache = (xhat, inv)
        return xhat * self.params["g"] + self.params["b"]

    def backward(self, dout):
        xhat, inv = self.cache
        self.grads["g"] = (dout * xhat).reshape(-1, xhat.shape[-1]).sum(0)
        self.grads["b"] = dout.reshape(-1, xhat.shape[-1]).sum(0)
        dx = dout * self.params["g"]
        return inv * (dx - dx.mean(-1, keepdims=True)
                      - xhat * (dx * xhat).mean(-1, keepdims=True))


class MultiHeadAttention:
    """Self-attention.  valid is (B, T) bool, True for real tokens, False for padding."""

    def __init__(self, width, heads, rng):
        assert width % heads == 0
        self.H, self.D = heads, width // heads
        self.q_proj = Linear(width, width, rng)
        self.k_proj = Linear(width, width, rng)
        self.v_proj = Linear(width, width, rng)
        self.o_proj = Linear(width, width, rng)

    def _split(self, x):                                   # (B,T,C) -> (B,H,T,D)
        B, T, _ = x.shape
        return x.reshape(B, T, self.H, self.D).transpose(0, 2, 1, 3)

    def _merge(self, x):                                   # (B,H,T,D) -> (B,T,C)
        B, _, T, _ = x.shape
        return x.transpose(0, 2, 1, 3).reshape(B, T, self.H * self.D)

    def forward(self, x, valid=None):
        Q = self._split(self.q_proj.forward(x))
        K = self._split(self.k_proj.forward(x))
        V = self._split(self.v_proj.forward(x))
        S = Q @ K.swapaxes(-1, -2) / np.sqrt(self.D)
        if valid is not None:
            S = np.where(valid[:, None, None, :], S, -1e30)
        S = S - S.max(-1, keepdims=True)
        A = np.exp(S)
        A /= A.sum(-1, keepdims=True)
        self.cache = (Q, K, V, A)
        return self.o_proj.forward(self._merge(A @ V))

    def backward(self, dout):
        Q, K, V, A = self.cache
        dctx = self._split(self.o_proj.backward(dout))
        dV = A.swapaxes(-1, -2) @ dctx
        dA = dctx @ V.swapaxes(-1, -2)
        # softmax jacobian, row by row; masked columns have A == 0 and drop out here
        dS = A * (dA - (dA * A).sum(-1, keepdims=True))
        dS /= np.sqrt(self.D)
        dQ = dS @ K
        dK = dS.swapaxes(-1, -2) @ Q
        dx = self.q_proj.backward(self._merge(dQ))
        dx = dx + self.k_proj.backward(self._merge(dK))
        dx = dx + self.v_proj.backward(self._merge(dV))
        return dx


class EncoderBlock:
    def __init__(self, width, heads, hidden, rng):
        self.ln1, self.ln2 = LayerNorm(width), LayerNorm(width)
        self.mha = MultiHeadAttention(width, heads, rng)
        self.fc1, self.fc2 = Linear(width, hidden, rng), Linear(hidden, width, rng)

    def forward(self, x, valid=None):
        x = x + self.mha.forward(self.ln1.forward(x), valid)
        h = self.fc1.forward(self.ln2.forward(x))
        self.relu_on = h > 0
        return x + self.fc2.forward(h * self.relu_on)

    def backward(self, dout):
        dh = self.fc2.backward(dout) * self.relu_on
        dx = dout + self.ln2.backward(self.fc1.backward(dh))
        return dx + self.ln1.backward(self.mha.backward(dx))


def grad_check(fn, x, dout, eps=1e-6):
    g = np.zeros_like(x)
    it = np.nditer(x, flags=["multi_index"])
    for _ in it:
        i = it.multi_index
        keep = x[i]
        x[i] = keep + eps
        up = (fn(x) * dout).sum()
        x[i] = keep - eps
        down = (fn(x) * dout).sum()
        x[i] = keep
        g[i] = (up - down) / (2 * eps)
    return g


if __name__ == "__main__":
    rng = np.random.default_rng(0)
    block = EncoderBlock(8, 2, 16, rng)
    x = rng.normal(size=(2, 5, 8))
    valid = np.array([[1, 1, 1, 1, 1], [1, 1, 1, 0, 0]], bool)
    d = rng.normal(size=x.shape)
    block.forward(x, valid)
    ana = block.backward(d)
    num = grad_check(lambda z: block.forward(z, valid), x, d)
    print("max grad error", np.abs(ana - num).max())
