"""Run one BERT encoder layer from a Hugging Face state dict with NumPy only.

Weights keep PyTorch's convention (out_features, in_features), so y = x @ W.T + b.
attention_mask follows Hugging Face: 1 = token, 0 = padding, shape (B, L).
"""
import math

import numpy as np

PREFIX = "encoder.layer.{i}."


def _linear(sd, name, x):
    return x @ sd[name + ".weight"].T + sd[name + ".bias"]


def _layer_norm(sd, name, x, eps=1e-12):
    mu = x.mean(-1, keepdims=True)
    var = ((x - mu) ** 2).mean(-1, keepdims=True)
    return (x - mu) / np.sqrt(var + eps) * sd[name + ".weight"] + sd[name + ".bias"]


def _gelu(x):
    return 0.5 * x * (1.0 + np.vectorize(math.erf)(x / math.sqrt(2.0)))


def extended_mask(attention_mask):
    m = np.asarray(attention_mask, dtype=np.float64)
    return (1.0 - m)[:, None, None, :] * -1e9


def bert_self_attention(sd, i, hidden, attention_mask, num_heads=12, output_attentions=False):
    """hidden (B, L, D) -> context (B, L, D) before the output projection."""
    p = PREFIX.format(i=i) + "attention.self."
    b, n, d = hidden.shape
    size = d // num_heads

    def heads(t):
        return t.reshape(b, n, num_heads, size).transpose(0, 2, 1, 3)

    q = heads(_linear(sd, p + "query", hidden))
    k = heads(_linear(sd, p + "key", hidden))
    v = heads(_linear(sd, p + "value", hidden))

    scores = q @ k.transpose(0, 1, 3, 2)
    scores = scores / math.sqrt(size) + extended_mask(attention_mask)
    scores -= scores.max(axis=-1, keepdims=True)
    np.exp(scores, out=scores)
    scores /= scores.sum(axis=-1, keepdims=True)

    ctx = (scores @ v).transpose(0, 2, 1, 3).reshape(b, n, d)
    return (ctx, scores) if output_attentions else ctx


def bert_layer(sd, i, hidden, attention_mask, num_heads=12):
    p = PREFIX.format(i=i)
    ctx = bert_self_attention(sd, i, hidden, attention_mask, num_heads)
    a = _layer_norm(sd, p + "attention.output.LayerNorm", _linear(sd, p + "attention.output.dense", ctx) + hidden)
    f = _linear(sd, p + "output.dense", _gelu(_linear(sd, p + "intermediate.dense", a)))
    return _layer_norm(sd, p + "output.LayerNorm", f + a)


def mean_pool(hidden, attention_mask):
    m = np.asarray(attention_mask)[..., None]
    return (hidden * m).sum(1) / m.sum(1)
