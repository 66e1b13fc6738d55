"""CS course, homework 3: implement scaled dot-product attention with NumPy only.

Definition from the sheet:
    Attention(Q, K, V) = softmax(Q K^T / sqrt(d_k)) V
where the softmax is taken over each row, so that each query's weights sum to one.
"""
import numpy as np


def softmax(x):
    """Softmax of the score matrix x (n_queries, n_keys)."""
    exp_x = np.exp(x - np.max(x))
    return exp_x / np.sum(exp_x)


def scaled_dot_product_attention(Q, K, V):
    """
    Q: (n_queries, d_k)
    K: (n_keys, d_k)
    V: (n_keys, d_v)
    Returns output (n_queries, d_v) and the attention weights (n_queries, n_keys).
    """
    d_k = Q.shape[-1]
    scores = np.dot(Q, K.T) / np.sqrt(d_k)
    weights = softmax(scores)
    return np.dot(weights, V), weights


def multi_head(X, Wq, Wk, Wv, Wo):
    """X (n, d_model); Wq, Wk, Wv (heads, d_model, d_k); Wo (heads * d_k, d_model)."""
    heads = []
    for wq, wk, wv in zip(Wq, Wk, Wv):
        out, _ = scaled_dot_product_attention(X @ wq, X @ wk, X @ wv)
        heads.append(out)
    return np.concatenate(heads, axis=-1) @ Wo


if __name__ == "__main__":
    np.random.seed(0)
    q, k, v = (np.random.randn(4, 8) for _ in range(3))
    out, w = scaled_dot_product_attention(q, k, v)
    print(out.shape, w.shape)
