"""GPT-2 forward pass in pure NumPy: weights come from a flat dict (OpenAI names), with a kv cache.

    state = load("gpt2.npz"); cache = None
    logits, cache = gpt2(ids, state, n_head=12)
    logits, cache = gpt2([next_id], state, n_head=12, cache=cache)
"""
import numpy as np


def load(path):
    with np.load(path) as f:
        return {k: f[k].astype(np.float32) for k in f.files}


def gelu(x):
    return 0.5 * x * (1 + np.tanh(np.sqrt(2 / np.pi) * (x + 0.044715 * x ** 3)))


def layer_norm(x, g, b, eps=1e-5):
    mu = x.mean(-1, keepdims=True)
    var = x.var(-1, keepdims=True)
    return g * (x - mu) / np.sqrt(var + eps) + b


def linear(x, w, b):
    return x @ w + b


def softmax(x):
    e = np.exp(x - x.max(-1, keepdims=True))
    return e / e.sum(-1, keepdims=True)


def mha(x, w, prefix, n_head, past=None):
    """x: [n_new, n_embd]. `past` is (k, v), each [n_head, n_past, d]. Causal."""
    n, e = x.shape
    d = e // n_head
    qkv = linear(x, w[prefix + "c_attn.weight"], w[prefix + "c_attn.bias"])
    q, k, v = (t.reshape(n, n_head, d).swapaxes(0, 1) for t in np.split(qkv, 3, axis=-1))
    if past is not None:
        k = np.concatenate([past[0], k], axis=1)
        v = np.concatenate([past[1], v], axis=1)
    n_all = k.shape[1]
    n_past = n_all - n
    s = np.einsum("hqd,hkd->hqk", q, k) / np.sqrt(d)
    # query number i stands at absolute position n_past + i
    hidden = np.arange(n_all)[None, :] > (n_past + np.arange(n))[:, None]
    s = np.where(hidden, -1e10, s)
    o = np.einsum("hqk,hkd->qhd", softmax(s), v).reshape(n, e)
    return linear(o, w[prefix + "c_proj.weight"], w[prefix + "c_proj.bias"]), (k, v)


def block(x, w, i, n_head, past):
    p = f"h.{i}."
    a, kv = mha(layer_norm(x, w[p + "ln_1.weight"], w[p + "ln_1.bias"]), w, p + "attn.", n_head, past)
    x = x + a
    h = layer_norm(x, w[p + "ln_2.weight"], w[p + "ln_2.bias"])
    h = gelu(linear(h, w[p + "mlp.c_fc.weight"], w[p + "mlp.c_fc.bias"]))
    return x + linear(h, w[p + "mlp.c_proj.weight"], w[p + "mlp.c_proj.bias"]), kv


def gpt2(ids, w, n_head, cache=None):
    n_layer = 1 + max(int(k.split(".")[1]) for k in w if k.startswith("h."))
    start = 0 if cache is None else cache[0][0].shape[1]
    x = w["wte.weight"][list(ids)] + w["wpe.weight"][start:start + len(ids)]
    new = []
    for i in range(n_layer):
        x, kv = block(x, w, i, n_head, None if cache is None else cache[i])
        new.append(kv)
    x = layer_norm(x, w["ln_f.weight"], w["ln_f.bias"])
    return x @ w["wte.weight"].T, new


def greedy(ids, w, n_head, n_new):
    out, cache, feed = list(ids), None, list(ids)
    for _ in range(n_new):
        logits, cache = gpt2(feed, w, n_head, cache)
        feed = [int(logits[-1].argmax())]
        out += feed
    return out
