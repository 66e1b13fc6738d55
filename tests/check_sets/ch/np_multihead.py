"""Forward pass of multi-head self attention with numpy only (for the blog post)."""
import numpy as np


def softmax(z, axis=-1):
    z = z - z.max(axis=axis, keepdims=True)
    e = np.exp(z)
    return e / e.sum(axis=axis, keepdims=True)


def split_heads(x, num_heads):
    """(batch, seq, dim) -> (batch, heads, seq, dim / heads)"""
    b, n, d = x.shape
    return x.reshape(b, n, num_heads, d // num_heads).transpose(0, 2, 1, 3)


def multi_head_attention(x, w_q, w_k, w_v, w_o, num_heads, causal=False):
    """
    x: (batch, seq, dim); the four weights are (dim, dim) and applied as x @ w.
    With causal=True position t only looks at positions 0..t.
    Returns the output (batch, seq, dim) and the weights (batch, heads, seq, seq).
    """
    b, n, d = x.shape
    q = split_heads(x @ w_q, num_heads)
    k = split_heads(x @ w_k, num_heads)
    v = split_heads(x @ w_v, num_heads)

    scores = np.matmul(q, k.transpose(0, 1, 3, 2)) / np.sqrt(d // num_heads)
    if causal:
        future = np.triu(np.ones((n, n), dtype=bool), k=1)
        scores = np.where(future, -np.inf, scores)
    weights = softmax(scores)
    heads = np.matmul(weights, v)
    out = heads.transpose(0, 2, 1, 3).reshape(b, n, d) @ w_o
    return out, weights


if __name__ == "__main__":
    rng = np.random.default_rng(0)
    dim = 12
    ws = [rng.normal(size=(dim, dim)) / np.sqrt(dim) for _ in range(4)]
    y, w = multi_head_attention(rng.normal(size=(2, 5, dim)), *ws, num_heads=3, causal=True)
    print(y.shape)
    print(np.round(w[0, 0], 2))
