"""Slot Attention(物体中心表現)の推論用 numpy 実装。

softmax は入力側ではなく「スロット軸」で正規化する(スロット同士が画素を取り合う)。
その後、各スロットの重みを入力方向の和で割って加重平均にする。論文どおりの仕様。
"""
import numpy as np


def layer_norm(x, eps=1e-5):
    mu = x.mean(axis=-1, keepdims=True)
    return (x - mu) / np.sqrt(x.var(axis=-1, keepdims=True) + eps)


def sigmoid(x):
    return 1 / (1 + np.exp(-x))


class SlotAttention:
    def __init__(self, num_slots, dim, iters=3, hidden=32, eps=1e-8, seed=0):
        rng = np.random.default_rng(seed)
        self.num_slots, self.dim, self.iters, self.eps = num_slots, dim, iters, eps
        s = dim ** -0.5
        self.Wq, self.Wk, self.Wv = rng.normal(0, s, (3, dim, dim))
        # GRU: [r, z, n] の順
        self.Wi = rng.normal(0, s, (3, dim, dim))
        self.Wh = rng.normal(0, s, (3, dim, dim))
        self.W1 = rng.normal(0, s, (dim, hidden))
        self.W2 = rng.normal(0, hidden ** -0.5, (hidden, dim))
        self.mu = rng.normal(0, 1, dim)
        self.sigma = np.abs(rng.normal(0, 1, dim))

    def gru(self, x, h):
        r = sigmoid(x @ self.Wi[0] + h @ self.Wh[0])
        z = sigmoid(x @ self.Wi[1] + h @ self.Wh[1])
        n = np.tanh(x @ self.Wi[2] + r * (h @ self.Wh[2]))
        return (1 - z) * n + z * h

    def __call__(self, inputs, noise=None):
        """inputs: (B, N, D) -> slots: (B, K, D), attn: (B, K, N)"""
        B = inputs.shape[0]
        if noise is None:
            noise = np.random.default_rng(1).normal(size=(B, self.num_slots, self.dim))
        slots = self.mu + self.sigma * noise

        x = layer_norm(inputs)
        k, v = x @ self.Wk, x @ self.Wv
        for _ in range(self.iters):
            prev = slots
            q = layer_norm(slots) @ self.Wq
            logits = np.einsum("bkd,bnd->bkn", q, k) / np.sqrt(self.dim)
            # スロット軸 (axis=1) で softmax
            logits = logits - logits.max(axis=1, keepdims=True)
            attn = np.exp(logits)
            attn = attn / attn.sum(axis=1, keepdims=True)
            # 加重平均
            w = attn + self.eps
            w = w / w.sum(axis=-1, keepdims=True)
            updates = w @ v
            slots = self.gru(updates, prev)
            slots = slots + np.maximum(layer_norm(slots) @ self.W1, 0) @ self.W2
        return slots, attn
