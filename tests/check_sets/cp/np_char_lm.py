"""Character-level language model, forward pass only, no frameworks.

Decoder block a la GPT: token + position embedding, masked self-attention, MLP.
logits[:, t] are for predicting the character t+1 from characters 0..t.
"""
import numpy as np


def softmax(z):
    z = z - z.max(-1, keepdims=True)
    e = np.exp(z)
    return e / e.sum(-1, keepdims=True)


def layer_norm(x, eps=1e-5):
    return (x - x.mean(-1, keepdims=True)) / np.sqrt(x.var(-1, keepdims=True) + eps)


def gelu(x):
    return 0.5 * x * (1 + np.tanh(np.sqrt(2 / np.pi) * (x + 0.044715 * x ** 3)))


class CharLM:
    def __init__(self, vocab=27, dim=24, heads=3, context=32, seed=42):
        r = np.random.RandomState(seed)
        w = lambda *s: r.randn(*s) / np.sqrt(s[0])
        self.heads = heads
        self.tok = r.randn(vocab, dim) * 0.1
        self.pos = r.randn(context, dim) * 0.1
        self.Wqkv = w(dim, 3 * dim)
        self.Wo = w(dim, dim)
        self.W1 = w(dim, 4 * dim)
        self.W2 = w(4 * dim, dim)
        self.Wout = w(dim, vocab)

    def attention(self, x):
        """masked multi-head self-attention; x: (B, T, C)"""
        B, T, C = x.shape
        d = C // self.heads
        q, k, v = np.split(x @ self.Wqkv, 3, axis=-1)
        q = q.reshape(B, T, self.heads, d).transpose(0, 2, 1, 3)
        k = k.reshape(B, T, self.heads, d).transpose(0, 2, 1, 3)
        v = v.reshape(B, T, self.heads, d).transpose(0, 2, 1, 3)
        att = q @ k.transpose(0, 1, 3, 2) / np.sqrt(d)
        future = np.triu(np.ones((T, T), dtype=bool), k=2)
        att = np.where(future, -np.inf, att)
        y = softmax(att) @ v
        return y.transpose(0, 2, 1, 3).reshape(B, T, C) @ self.Wo

    def forward(self, ids):
        """ids: (B, T) ints -> logits (B, T, vocab)"""
        x = self.tok[ids] + self.pos[: ids.shape[1]]
        x = x + self.attention(layer_norm(x))
        x = x + gelu(layer_norm(x) @ self.W1) @ self.W2
        return layer_norm(x) @ self.Wout

    __call__ = forward
