# code from my post "Self-attention explained with 30 lines of numpy"
import numpy as np

np.random.seed(42)


def softmax(x, axis=-1):
    return np.exp(x) / np.sum(np.exp(x), axis=axis, keepdims=True)


def scaled_dot_product(q, k, v, mask=None):
    d_k = q.shape[-1]
    scaled = np.matmul(q, np.swapaxes(k, -1, -2)) / np.sqrt(d_k)
    if mask is not None:
        scaled = scaled + mask      # 0 to keep, -inf to hide
    attention = softmax(scaled)
    values = np.matmul(attention, v)
    return values, attention


class MultiHeadAttention:
    def __init__(self, d_model, num_heads):
        self.num_heads = num_heads
        self.head_dim = d_model // num_heads
        self.W_qkv = np.random.randn(d_model, 3 * d_model) / np.sqrt(d_model)
        self.W_out = np.random.randn(d_model, d_model) / np.sqrt(d_model)

    def forward(self, x, mask=None):
        # x: batch x sequence x d_model
        batch_size, sequence_length, d_model = x.shape
        qkv = x @ self.W_qkv
        qkv = qkv.reshape(batch_size, sequence_length, self.num_heads, 3 * self.head_dim)
        qkv = qkv.transpose(0, 2, 1, 3)
        q, k, v = np.split(qkv, 3, axis=-1)
        values, attention = scaled_dot_product(q, k, v, mask)
        values = values.transpose(0, 2, 1, 3).reshape(batch_size, sequence_length, d_model)
        return values @ self.W_out, attention

    __call__ = forward


def look_ahead_mask(size):
    m = np.zeros((size, size))
    m[np.triu_indices(size, 1)] = -np.inf
    return m
