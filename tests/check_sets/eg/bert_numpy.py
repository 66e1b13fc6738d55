"""BERT self-attention in plain NumPy, to run the tiny checkpoint without a framework."""
import numpy as np


def softmax(x):
    x = x - np.max(x, axis=-1, keepdims=True)
    e = np.exp(x)
    return e / np.sum(e, axis=-1, keepdims=True)


def linear(x, w, b):
    """w as stored by PyTorch: (out, in)."""
    return x @ w.T + b


class BertSelfAttention:
    """
    weights: dict with query.weight, query.bias, key.*, value.*, output.* (PyTorch layout)
    forward(hidden, attention_mask):
        hidden (B, T, D); attention_mask (B, T): 1 = token, 0 = [PAD]
        [PAD] positions must not influence the tokens. Every row has [CLS].
    Returns (B, T, D), scores scaled with the head size.
    """

    def __init__(self, weights, num_heads):
        self.w = weights
        self.num_heads = num_heads

    def _heads(self, x):
        B, T, D = x.shape
        return x.reshape(B, T, self.num_heads, D // self.num_heads).transpose(0, 2, 1, 3)

    def forward(self, hidden, attention_mask):
        w = self.w
        q = self._heads(linear(hidden, w["query.weight"], w["query.bias"]))
        k = self._heads(linear(hidden, w["key.weight"], w["key.bias"]))
        v = self._heads(linear(hidden, w["value.weight"], w["value.bias"]))
        scores = q @ k.transpose(0, 1, 3, 2) / np.sqrt(q.shape[-1])
        scores = scores * attention_mask[:, None, None, :]
        probs = softmax(scores)
        ctx = (probs @ v).transpose(0, 2, 1, 3).reshape(hidden.shape)
        return linear(ctx, w["output.weight"], w["output.bias"])
