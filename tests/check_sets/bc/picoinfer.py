# picoinfer: GPT-2 in numpy with a kv cache. No classes, params are nested dicts.
import numpy as np


def gelu(x):
    return 0.5 * x * (1 + np.tanh(np.sqrt(2 / np.pi) * (x + 0.044715 * x**3)))


def softmax(x):
    e = np.exp(x - np.max(x, axis=-1, keepdims=True))
    return e / np.sum(e, axis=-1, keepdims=True)


def layer_norm(x, g, b, eps=1e-5):
    mu = x.mean(-1, keepdims=True)
    return g * (x - mu) / np.sqrt(x.var(-1, keepdims=True) + eps) + b


def linear(x, w, b):
    return x @ w + b


def attention(q, k, v, mask):
    return softmax(q @ k.T / np.sqrt(q.shape[-1]) + mask) @ v


def mha(x, c_attn, c_proj, n_head, kvcache=None):
    """x: (n_new, n_embd). kvcache: None or [k, v] of the past, each (n_past, n_embd).
    Returns (y, [k, v]). Causal; the new tokens come after the cached ones."""
    x = linear(x, **c_attn)
    q, k, v = np.split(x, 3, axis=-1)
    if kvcache is not None:
        k = np.vstack([kvcache[0], k])
        v = np.vstack([kvcache[1], v])
    n_new, n_all = len(q), len(k)
    mask = (1 - np.tri(n_all, dtype=x.dtype))[n_all - n_new:] * -1e10
    cut = lambda t: np.split(t, n_head, axis=-1)
    heads = [attention(a, b, c, mask) for a, b, c in zip(cut(q), cut(k), cut(v))]
    return linear(np.hstack(heads), **c_proj), [k, v]


def block(x, p, n_head, cache):
    a, cache = mha(layer_norm(x, **p["ln_1"]), **p["attn"], n_head=n_head, kvcache=cache)
    x = x + a
    h = gelu(linear(layer_norm(x, **p["ln_2"]), **p["mlp"]["c_fc"]))
    return x + linear(h, **p["mlp"]["c_proj"]), cache


def gpt2(ids, wte, wpe, blocks, ln_f, n_head, caches=None):
    past = 0 if caches is None else len(caches[0][0])
    caches = caches or [None] * len(blocks)
    x = wte[ids] + wpe[past:past + len(ids)]
    new = []
    for p, c in zip(blocks, caches):
        x, c = block(x, p, n_head, c)
        new.append(c)
    return layer_norm(x, **ln_f) @ wte.T, new


def generate(ids, params, n_head, n):
    logits, caches = gpt2(ids, **params, n_head=n_head)
    for _ in range(n):
        ids = ids + [int(logits[-1].argmax())]
        logits, caches = gpt2(ids[-1:], **params, n_head=n_head, caches=caches)
    return ids
