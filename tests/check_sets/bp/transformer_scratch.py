# My transformer from scratch, only numpy! (blog post part 3: multi-head attention)
import numpy as np

np.random.seed(42)


def relu(x):
    return np.maximum(0, x)


def softmax(x):
    e = np.exp(x)
    return e / np.sum(e, axis=-1, keepdims=True)


def layer_norm(x, eps=1e-6):
    mean = x.mean(axis=-1, keepdims=True)
    std = x.std(axis=-1, keepdims=True)
    return (x - mean) / (std + eps)


class MultiHeadAttention:
    """
    Attention(Q, K, V) = softmax(Q K^T / sqrt(d_k)) V  for every head,
    the heads are then put side by side and multiplied by W_o.

    x has shape (batch, seq, d_model).  With causal=True a token only looks at
    itself and the tokens before it.
    """

    def __init__(self, d_model, num_heads):
        assert d_model % num_heads == 0
        self.d_model = d_model
        self.num_heads = num_heads
        self.d_k = d_model // num_heads
        self.W_q = np.random.randn(d_model, d_model) * 0.3
        self.W_k = np.random.randn(d_model, d_model) * 0.3
        self.W_v = np.random.randn(d_model, d_model) * 0.3
        self.W_o = np.random.randn(d_model, d_model) * 0.3

    def split_heads(self, x):
        batch, seq, _ = x.shape
        x = x.reshape(batch, seq, self.num_heads, self.d_k)
        return x.transpose(0, 2, 1, 3)

    def combine_heads(self, x):
        batch, heads, seq, d_k = x.shape
        return x.reshape(batch, seq, heads * d_k)

    def forward(self, x, causal=False):
        q = self.split_heads(x @ self.W_q)
        k = self.split_heads(x @ self.W_k)
        v = self.split_heads(x @ self.W_v)

        scores = q @ k.transpose(0, 1, 3, 2)
        scores = scores / np.sqrt(q.shape[1])
        if causal:
            n = x.shape[1]
            scores = np.where(np.tril(np.ones((n, n))) == 1, scores, -np.inf)
        weights = softmax(scores)
        out = self.combine_heads(weights @ v)
        return out @ self.W_o


class FeedForward:
    def __init__(self, d_model, d_ff):
        self.W1 = np.random.randn(d_model, d_ff) * 0.1
        self.W2 = np.random.randn(d_ff, d_model) * 0.1

    def forward(self, x):
        return relu(x @ self.W1) @ self.W2


class EncoderLayer:
    def __init__(self, d_model, num_heads, d_ff):
        self.mha = MultiHeadAttention(d_model, num_heads)
        self.ff = FeedForward(d_model, d_ff)

    def forward(self, x):
        x = layer_norm(x + self.mha.forward(x))
        return layer_norm(x + self.ff.forward(x))


if __name__ == "__main__":
    words = "the cat sat on the mat".split()
    vocab = {w: np.random.randn(32) for w in sorted(set(words))}
    x = np.stack([vocab[w] for w in words])[None]
    print(EncoderLayer(32, 4, 64).forward(x).shape)
