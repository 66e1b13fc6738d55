"""bloom-lite: ALiBi decoder in numpy, inference only.

Press et al. 2022: instead of position embeddings, head h adds -m_h * (i - j) to the score of
query i and key j.  The slopes m_h are a geometric sequence; for a number of heads that is no
power of two, those of the next lower power of two are taken first, followed by every other
one of the sequence for twice as many.

Any number of heads will do:  Bloom(n_head=6, hidden=48)
"""
import numpy as np


def gelu(x):
    return 0.5 * x * (1 + np.tanh(0.79788456 * (x + 0.044715 * x ** 3)))


def ln(x, eps=1e-5):
    return (x - x.mean(-1, keepdims=True)) / np.sqrt(x.var(-1, keepdims=True) + eps)


def get_slopes(n_head):
    start = 2.0 ** (-8.0 / n_head)
    return start ** np.arange(1, n_head + 1)


def build_alibi(n_head, T):
    """(n_head, T, T), 0 on the diagonal, falling with the distance to the past"""
    pos = np.arange(T)
    dist = pos[:, None] - pos[None, :]
    return -get_slopes(n_head)[:, None, None] * np.maximum(dist, 0)


class BloomBlock:
    def __init__(self, rng, hidden, n_head):
        s = hidden ** -0.5
        self.n_head = n_head
        self.qkv = rng.normal(0, s, (hidden, 3 * hidden))
        self.qkv_b = rng.normal(0, 0.02, 3 * hidden)
        self.dense = rng.normal(0, s, (hidden, hidden))
        self.up = rng.normal(0, s, (hidden, 4 * hidden))
        self.down = rng.normal(0, s / 2, (4 * hidden, hidden))

    def attention(self, x):
        """x (B, T, C), causal; the packed projection is (head, 3, dim) as in BLOOM"""
        B, T, C = x.shape
        H = self.n_head
        fused = (x @ self.qkv + self.qkv_b).reshape(B, T, H, 3, C // H)
        q, k, v = fused[..., 0, :], fused[..., 1, :], fused[..., 2, :]
        scores = np.einsum("bihd,bjhd->bhij", q, k) / np.sqrt(C // H)
        scores = scores + build_alibi(H, T)
        visible = np.tril(np.ones((T, T), dtype=bool), k=1)
        scores = np.where(visible, scores, np.finfo(scores.dtype).min)
        scores -= scores.max(-1, keepdims=True)
        p = np.exp(scores)
        p /= p.sum(-1, keepdims=True)
        ctx = np.einsum("bhij,bjhd->bihd", p, v).reshape(B, T, C)
        return ctx @ self.dense

    def __call__(self, x):
        x = x + self.attention(ln(x))
        return x + gelu(ln(x) @ self.up) @ self.down


class Bloom:
    def __init__(self, vocab=60, hidden=48, n_head=6, n_layer=2, seed=0):
        rng = np.random.default_rng(seed)
        self.wte = rng.normal(0, 0.5, (vocab, hidden))
        self.blocks = [BloomBlock(rng, hidden, n_head) for _ in range(n_layer)]

    def __call__(self, ids):
        x = ln(self.wte[np.asarray(ids)])
        for b in self.blocks:
            x = b(x)
        return ln(x) @ self.wte.T

    def generate(self, ids, steps):
        ids = np.asarray(ids)
        for _ in range(steps):
            nxt = self(ids)[:, -1].argmax(-1)
            ids = np.concatenate([ids, nxt[:, None]], axis=1)
        return ids
