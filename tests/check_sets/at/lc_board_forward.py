"""Pure NumPy forward pass of a chess transformer exported from training.

Weights come as a flat dict  {"enc0/q/w": ..., "enc0/q/b": ..., ...}.
Planes are already flattened to 64 tokens; a8 is token 0, h1 token 63.
Used in the unit tests of the C++ backend, so speed is of no concern.
"""
import numpy as np

FILES = "abcdefgh"


def square_name(idx):
    return FILES[idx % 8] + str(8 - idx // 8)


def mish(x):
    return x * np.tanh(np.log1p(np.exp(-np.abs(x))) + np.maximum(x, 0))


def ln(x, gamma, beta, eps=1e-3):
    mu = x.mean(-1, keepdims=True)
    var = ((x - mu) ** 2).mean(-1, keepdims=True)
    return gamma * (x - mu) / np.sqrt(var + eps) + beta


def dense(x, w, pre, act=None):
    y = x @ w[pre + "/w"] + w[pre + "/b"]
    return act(y) if act is not None else y


def smolgen(x, w, pre, heads):
    """Position dependent bias for every head: [N, heads, 64, 64]."""
    n = x.shape[0]
    c = (x @ w[pre + "/compress"]).reshape(n, -1)
    h = dense(c, w, pre + "/dense1", mish)
    h = ln(h, w[pre + "/ln1/g"], w[pre + "/ln1/b"])
    g = dense(h, w, pre + "/dense2", mish).reshape(n, heads, -1)
    g = ln(g, w[pre + "/ln2/g"], w[pre + "/ln2/b"])
    return (g @ w["smolgen_shared"]).reshape(n, heads, 64, 64)


def encoder_layer(x, w, name, heads, alpha=1.0):
    """One post-norm encoder layer.  x: [N, 64, C] -> [N, 64, C]."""
    n, t, c = x.shape
    q = dense(x, w, name + "/q")
    k = dense(x, w, name + "/k")
    v = dense(x, w, name + "/v")
    depth = q.shape[-1] // heads
    q = q.reshape(n, t, heads, depth)
    k = k.reshape(n, t, heads, depth)
    v = v.reshape(n, t, heads, -1)

    logits = np.einsum("nihd,njhd->nhij", q, k) / np.sqrt(depth)
    if name + "/smolgen/compress" in w:
        logits = logits + smolgen(x, w, name + "/smolgen", heads)
    logits -= logits.max(axis=3, keepdims=True)
    e = np.exp(logits)
    weights = e / e.sum(axis=3, keepdims=True)

    mixed = np.einsum("nhij,njhd->nihd", weights, v).reshape(n, t, -1)
    out1 = ln(x + alpha * dense(mixed, w, name + "/out"),
              w[name + "/ln1/g"], w[name + "/ln1/b"])
    ff = dense(dense(out1, w, name + "/ffn1", mish), w, name + "/ffn2")
    return ln(out1 + alpha * ff, w[name + "/ln2/g"], w[name + "/ln2/b"])


def policy_map(x, w):
    """From-to logits [N, 64, 64]: scaled dot products of the two embeddings."""
    q = dense(x, w, "policy/from")
    k = dense(x, w, "policy/to")
    return q @ k.transpose(0, 2, 1) / np.sqrt(k.shape[-1])


def evaluate(planes, w, heads, layers):
    x = dense(planes.reshape(planes.shape[0], -1, 64).transpose(0, 2, 1), w, "embed", mish)
    for i in range(layers):
        x = encoder_layer(x, w, f"enc{i}", heads)
    return policy_map(x, w)


def best_move(planes, w, heads, layers):
    p = evaluate(planes[None], w, heads, layers)[0]
    a, b = divmod(int(p.argmax()), 64)
    return square_name(a) + square_name(b)
