"""A character-level GPT in NumPy, forward pass only.

Written for a reading group: load the weights trained by train.py and
generate some Shakespeare one character at a time.
"""
import numpy as np


def gelu(x):
    return 0.5 * x * (1 + np.tanh(np.sqrt(2 / np.pi) * (x + 0.044715 * x ** 3)))


def softmax(x):
    e = np.exp(x - x.max(axis=-1, keepdims=True))
    return e / e.sum(axis=-1, keepdims=True)


def layer_norm(x, g, b, eps=1e-5):
    m, s = x.mean(-1, keepdims=True), x.var(-1, keepdims=True)
    return g * (x - m) / np.sqrt(s + eps) + b


class Block:
    def __init__(self, d, n_head, rng):
        n = lambda *s: rng.normal(0, 1 / np.sqrt(s[0]), s)
        self.n_head = n_head
        self.g1, self.b1 = np.ones(d), np.zeros(d)
        self.g2, self.b2 = np.ones(d), np.zeros(d)
        self.w_attn, self.w_proj = n(d, 3 * d), n(d, d)
        self.w_fc, self.w_out = n(d, 4 * d), n(4 * d, d)

    def attention(self, x, mask=None):
        q, k, v = np.split(x @ self.w_attn, 3, axis=-1)
        heads = []
        for qh, kh, vh in zip(*(np.split(a, self.n_head, axis=-1) for a in (q, k, v))):
            s = qh @ kh.T / np.sqrt(qh.shape[-1])
            if mask is not None:
                s = s + mask
            heads.append(softmax(s) @ vh)
        return np.hstack(heads) @ self.w_proj

    def __call__(self, x, mask=None):
        x = x + self.attention(layer_norm(x, self.g1, self.b1), mask)
        return x + gelu(layer_norm(x, self.g2, self.b2) @ self.w_fc) @ self.w_out


class CharGPT:
    """Autoregressive model: position t predicts character t + 1 from 0..t."""

    def __init__(self, vocab=30, d=24, n_head=3, n_layer=2, block_size=16, seed=1337):
        rng = np.random.default_rng(seed)
        self.block_size = block_size
        self.wte = rng.normal(0, 0.5, (vocab, d))
        self.wpe = rng.normal(0, 0.1, (block_size, d))
        self.blocks = [Block(d, n_head, rng) for _ in range(n_layer)]
        self.gf, self.bf = np.ones(d), np.zeros(d)

    def __call__(self, ids):
        """ids: 1-D integer array -> logits [T, vocab] (tied output embedding)"""
        t = len(ids)
        x = self.wte[ids] + self.wpe[:t]
        for block in self.blocks:
            x = block(x)
        return layer_norm(x, self.gf, self.bf) @ self.wte.T

    def generate(self, ids, n, seed=0):
        rng = np.random.default_rng(seed)
        ids = list(ids)
        for _ in range(n):
            logits = self(np.array(ids[-self.block_size:]))[-1]
            ids.append(int(rng.choice(len(logits), p=softmax(logits))))
        return ids
