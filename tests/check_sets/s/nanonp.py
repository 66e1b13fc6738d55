"""GPT-2 forward pass in NumPy with a key/value cache (prompt in chunks, then token by token)."""
import numpy as np


def gelu(x):
    return 0.5 * x * (1 + np.tanh(np.sqrt(2 / np.pi) * (x + 0.044715 * x**3)))


def softmax(x):
    e = np.exp(x - np.max(x, axis=-1, keepdims=True))
    return e / np.sum(e, axis=-1, keepdims=True)


def layer_norm(x, g, b, eps=1e-5):
    mu, var = x.mean(-1, keepdims=True), x.var(-1, keepdims=True)
    return g * (x - mu) / np.sqrt(var + eps) + b


def linear(x, w, b):
    return x @ w + b


def ffn(x, c_fc, c_proj):
    return linear(gelu(linear(x, **c_fc)), **c_proj)


def attention(q, k, v, mask):
    return softmax(q @ k.T / np.sqrt(q.shape[-1]) + mask) @ v


def mha(x, c_attn, c_proj, n_head, past=None):
    q, k, v = np.split(linear(x, **c_attn), 3, axis=-1)
    if past is not None:
        k = np.vstack([past[0], k])
        v = np.vstack([past[1], v])
    causal = (1 - np.tri(q.shape[0], k.shape[0])) * -1e10
    heads = zip(*(np.split(t, n_head, axis=-1) for t in (q, k, v)))
    out = [attention(*h, causal) for h in heads]
    return linear(np.hstack(out), **c_proj), (k, v)


def block(x, mlp, attn, ln_1, ln_2, n_head, past=None):
    """x (new tokens, d). Returns (x, present); hand present back as past next time."""
    a, present = mha(layer_norm(x, **ln_1), **attn, n_head=n_head, past=past)
    x = x + a
    x = x + ffn(layer_norm(x, **ln_2), **mlp)
    return x, present
