"""
Multi-head attention from scratch
=================================
Only NumPy. All arrays are (batch, tokens, features).

`mask` is boolean and broadcastable to (batch, heads, tokens_q, tokens_k);
True means "may look".  A query that may look nowhere gets a zero vector.
"""
import numpy as np


def softmax(x, axis=-1):
    top = np.max(x, axis=axis, keepdims=True)
    top = np.where(np.isfinite(top), top, 0.0)
    e = np.exp(x - top)
    s = np.sum(e, axis=axis, keepdims=True)
    return np.divide(e, s, out=np.zeros_like(e), where=s > 0)


def scaled_dot_product_attention(Q, K, V, mask=None):
    d_k = Q.shape[-1]
    scores = np.matmul(Q, np.swapaxes(K, -1, -2)) / np.sqrt(d_k)
    if mask is not None:
        scores = np.where(mask, scores, -np.inf)
    weights = softmax(scores, axis=-1)
    return np.matmul(weights, V), weights


class MultiHeadAttention:
    def __init__(self, d_model=24, num_heads=4, seed=0):
        assert d_model % num_heads == 0
        rng = np.random.default_rng(seed)
        self.d_model = d_model
        self.num_heads = num_heads
        self.depth = d_model // num_heads
        std = 1.0 / np.sqrt(d_model)
        self.W_q, self.W_k, self.W_v, self.W_o = (
            rng.normal(0.0, std, (d_model, d_model)) for _ in range(4))

    def split_heads(self, x):
        b, n, _ = x.shape
        x = x.reshape(b, n, self.num_heads, self.depth)
        return x.transpose(0, 2, 1, 3)

    def combine_heads(self, x):
        b, h, n, d = x.shape
        return x.transpose(0, 2, 1, 3).reshape(b, n, h * d)

    def __call__(self, query, key, value, mask=None):
        Q = self.split_heads(query @ self.W_q)
        K = self.split_heads(key @ self.W_k)
        V = self.split_heads(value @ self.W_v)
        heads, weights = scaled_dot_product_attention(Q, K, V, mask)
        return self.combine_heads(heads) @ self.W_o, weights


def padding_mask(lengths, max_len):
    """(batch,) -> (batch, 1, 1, max_len)"""
    return (np.arange(max_len)[None, :] < np.asarray(lengths)[:, None])[:, None, None, :]


def look_ahead_mask(n):
    """(n, n) lower triangle incl. the diagonal"""
    return np.tril(np.ones((n, n), dtype=bool))


if __name__ == "__main__":
    rng = np.random.default_rng(1)
    x = rng.normal(size=(2, 5, 24))
    mha = MultiHeadAttention()
    out, w = mha(x, x, x, padding_mask([5, 3], 5) & look_ahead_mask(5))
    print(out.shape, w.shape)
    print(np.round(w[1, 0], 2))
