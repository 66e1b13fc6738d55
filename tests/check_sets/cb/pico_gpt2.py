"""GPT-2 in a screenful of NumPy (after jaymody/picoGPT), with a kv cache.

Weights come as the nested dict of the OpenAI checkpoint:
    wte, wpe, blocks: [{ln_1, attn: {c_attn, c_proj}, ln_2, mlp: {c_fc, c_proj}}], ln_f
where linear layers are {"w": [in, out], "b": [out]} and norms {"g", "b"}.
"""
import numpy as np


def gelu(x):
    return 0.5 * x * (1 + np.tanh(np.sqrt(2 / np.pi) * (x + 0.044715 * x**3)))


def softmax(x):
    e = np.exp(x - np.max(x, axis=-1, keepdims=True))
    return e / np.sum(e, axis=-1, keepdims=True)


def layer_norm(x, g, b, eps=1e-5):
    mu = np.mean(x, axis=-1, keepdims=True)
    var = np.var(x, axis=-1, keepdims=True)
    return g * (x - mu) / np.sqrt(var + eps) + b


def linear(x, w, b):
    return x @ w + b


def ffn(x, c_fc, c_proj):
    return linear(gelu(linear(x, **c_fc)), **c_proj)


def attention(q, k, v, mask):  # [n_q, d], [n_k, d], [n_k, d], [n_q, n_k] -> [n_q, d]
    return softmax(q @ k.T / np.sqrt(q.shape[-1]) + mask) @ v


def mha(x, c_attn, c_proj, n_head, past=None):  # [n_seq, n_embd] -> [n_seq, n_embd]
    x = linear(x, **c_attn)
    q, k, v = np.split(x, 3, axis=-1)
    if past is not None:
        k = np.vstack([past[0], k])
        v = np.vstack([past[1], v])
    present = (k, v)

    # rows are the newest n_q positions of the n_k seen so far
    n_q, n_k = len(q), len(k)
    mask = (1 - np.tri(n_q, n_k, n_k - n_q)) * -1e10

    heads = zip(*(np.split(t, n_head, axis=-1) for t in (q, k, v)))
    out = [attention(qh, kh, vh, mask) for qh, kh, vh in heads]
    return linear(np.hstack(out), **c_proj), present


def block(x, mlp, attn, ln_1, ln_2, n_head, past=None):
    a, present = mha(layer_norm(x, **ln_1), **attn, n_head=n_head, past=past)
    x = x + a
    return x + ffn(layer_norm(x, **ln_2), **mlp), present


def gpt2(ids, wte, wpe, blocks, ln_f, n_head, cache=None):
    """ids: list of new token ids. Returns logits [n_new, n_vocab] and the cache."""
    start = 0 if cache is None else len(cache[0][0])
    x = wte[ids] + wpe[start:start + len(ids)]
    presents = []
    for i, b in enumerate(blocks):
        x, present = block(x, **b, n_head=n_head, past=None if cache is None else cache[i])
        presents.append(present)
    return layer_norm(x, **ln_f) @ wte.T, presents


def generate(ids, params, n_head, n_new):
    ids = list(ids)
    logits, cache = gpt2(ids, **params, n_head=n_head)
    for _ in range(n_new):
        ids.append(int(np.argmax(logits[-1])))
        logits, cache = gpt2(ids[-1:], **params, n_head=n_head, cache=cache)
    return ids
