"""Transformer from scratch, part 2: scaled dot product attention."""
import numpy as np


def softmax(x):
    e = np.exp(x - np.max(x, axis=-1, keepdims=True))
    return e / np.sum(e, axis=-1, keepdims=True)


def scaled_dot_product_attention(Q, K, V, mask=None):
    """
    Attention(Q, K, V) = softmax(Q K^T / sqrt(d_k)) V

    Q: (batch, heads, len_q, d_k)
    K: (batch, heads, len_k, d_k)
    V: (batch, heads, len_k, d_v)
    mask: broadcastable to (batch, heads, len_q, len_k); 1 = look at this
          position, 0 = this position is hidden and must get no weight
    """
    scores = np.matmul(Q, K.swapaxes(-1, -2))
    if mask is not None:
        scores = np.where(mask == 0, 1e-9, scores)
    weights = softmax(scores)
    return np.matmul(weights, V), weights


def padding_mask(token_ids, pad_id=0):
    """(batch, len) -> (batch, 1, 1, len) with 1 for words."""
    return (token_ids != pad_id).astype(int)[:, None, None, :]


if __name__ == "__main__":
    np.random.seed(42)
    ids = np.array([[5, 3, 9, 0, 0], [4, 4, 8, 2, 7]])
    q = np.random.randn(2, 2, 5, 8)
    k = np.random.randn(2, 2, 5, 8)
    v = np.random.randn(2, 2, 5, 8)
    out, w = scaled_dot_product_attention(q, k, v, padding_mask(ids))
    print(out.shape, w.sum(-1))
