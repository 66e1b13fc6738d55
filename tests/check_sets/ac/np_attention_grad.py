"""Causal multi-head self-attention with a hand written backward pass, numpy only.

Written to understand what autograd does for me. Everything is (T, C), one sequence at a time.
"""
import numpy as np


def softmax(x):
    x = x - x.max(axis=-1, keepdims=True)
    e = np.exp(x)
    return e / e.sum(axis=-1, keepdims=True)


class CausalSelfAttention:
    def __init__(self, n_embd, n_head, seed=0):
        rng = np.random.default_rng(seed)
        self.C, self.H = n_embd, n_head
        self.D = n_embd // n_head
        s = 1.0 / np.sqrt(n_embd)
        self.p = {
            "Wqkv": rng.uniform(-s, s, (n_embd, 3 * n_embd)),
            "Wo": rng.uniform(-s, s, (n_embd, n_embd)),
        }
        self.g = {k: np.zeros_like(v) for k, v in self.p.items()}

    def _split(self, x):
        return x.reshape(-1, self.H, self.D).transpose(1, 0, 2)      # H T D

    def _merge(self, x):
        return x.transpose(1, 0, 2).reshape(-1, self.C)              # T C

    def forward(self, x):
        T = x.shape[0]
        qkv = x @ self.p["Wqkv"]
        q, k, v = (self._split(a) for a in np.split(qkv, 3, axis=1))
        scores = q @ k.transpose(0, 2, 1) / np.sqrt(self.D)
        scores = np.where(np.tri(T, dtype=bool), scores, -np.inf)
        att = softmax(scores)
        y = self._merge(att @ v)
        self.cache = (x, q, k, v, att, y)
        return y @ self.p["Wo"]

    def backward(self, dout):
        x, q, k, v, att, y = self.cache
        self.g["Wo"] += y.T @ dout
        dy = self._split(dout @ self.p["Wo"].T)

        datt = dy @ v.transpose(0, 2, 1)
        dv = att.transpose(0, 2, 1) @ dy

        # softmax jacobian; masked entries have att == 0 so their gradient vanishes by itself
        dscores = att * (datt - (datt * att).sum(axis=-1, keepdims=True))
        dscores = dscores / np.sqrt(self.D)

        dq = dscores @ k
        dk = dscores @ q

        dqkv = np.concatenate([self._merge(a) for a in (dq, dk, dv)], axis=1)
        self.g["Wqkv"] += x.T @ dqkv
        return dqkv @ self.p["Wqkv"].T

    def step(self, lr=1e-2):
        for name in self.p:
            self.p[name] -= lr * self.g[name]
            self.g[name][...] = 0.0


if __name__ == "__main__":
    layer = CausalSelfAttention(16, 4)
    xs = np.random.default_rng(1).normal(size=(6, 16))
    for _ in range(5):
        out = layer.forward(xs)
        loss = 0.5 * ((out - xs) ** 2).mean()
        layer.backward((out - xs) / out.size)
        layer.step(0.5)
        print(round(loss, 5))
