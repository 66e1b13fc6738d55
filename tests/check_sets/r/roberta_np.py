import numpy as np


def softmax(x, axis=-1):
    x = x - np.max(x, axis=axis, keepdims=True)
    e = np.exp(x)
    return e / e.sum(axis=axis, keepdims=True)


def layer_norm(x, p, eps=1e-5):
    mean = x.mean(-1, keepdims=True)
    return (x - mean) / np.sqrt(x.var(-1, keepdims=True) + eps) * p["weight"] + p["bias"]


def linear(x, p):
    return x @ p["weight"].T + p["bias"]


def roberta_self_attention(x, p, n_head, attention_mask=None):
    """x [batch, seq, hidden]; p: {"query", "key", "value", "out": {"weight", "bias"}, "norm": {"weight", "bias"}}.

    attention_mask [batch, seq], bool: True for real tokens.  Padding tokens (False) are not attended to.
    """
    b, n, d = x.shape

    def split(t):
        return t.reshape(b, n, n_head, d // n_head).transpose(0, 2, 1, 3)

    q, k, v = split(linear(x, p["query"])), split(linear(x, p["key"])), split(linear(x, p["value"]))
    scores = q @ k.swapaxes(-1, -2) / np.sqrt(d // n_head)
    if attention_mask is not None:
        scores = scores + attention_mask[:, None, None, :]
    ctx = softmax(scores) @ v
    ctx = ctx.transpose(0, 2, 1, 3).reshape(b, n, d)
    return layer_norm(x + linear(ctx, p["out"]), p["norm"])
