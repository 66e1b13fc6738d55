"""GPT-2 in plain NumPy with a key/value cache.

Weights come as the nested dict that `load_gpt2_params` of the TF checkpoint gives:
params["blocks"][i]["attn"]["c_attn"]["w"] etc.  A prompt may be fed in pieces of any
length (`forward(..., cache=cache)`); the logits are those of one long pass.
"""
import numpy as np


def gelu(x):
    return 0.5 * x * (1 + np.tanh(np.sqrt(2 / np.pi) * (x + 0.044715 * x**3)))


def layer_norm(x, g, b, eps=1e-5):
    mu = x.mean(-1, keepdims=True)
    var = x.var(-1, keepdims=True)
    return g * (x - mu) / np.sqrt(var + eps) + b


def linear(x, w, b):
    return x @ w + b


def softmax(x):
    e = np.exp(x - np.max(x, axis=-1, keepdims=True))
    return e / e.sum(axis=-1, keepdims=True)


def ffn(x, c_fc, c_proj):
    return linear(gelu(linear(x, **c_fc)), **c_proj)


def new_cache(n_layer):
    return [{"k": None, "v": None} for _ in range(n_layer)]


def mha(x, c_attn, c_proj, n_head, slot):
    """Causal self-attention of the new tokens x [n_new, n_embd] over cache + new tokens."""
    n_new, n_embd = x.shape
    q, k, v = np.split(linear(x, **c_attn), 3, axis=-1)

    def heads(t):
        return t.reshape(t.shape[0], n_head, n_embd // n_head).transpose(1, 0, 2)

    q, k, v = heads(q), heads(k), heads(v)                  # [n_head, n_new, d]
    if slot["k"] is not None:
        k = np.concatenate([slot["k"], k], axis=1)
        v = np.concatenate([slot["v"], v], axis=1)
    slot["k"], slot["v"] = k, v

    n_all = k.shape[1]
    visible = np.tril(np.ones((n_new, n_all), dtype=bool))
    scores = q @ k.transpose(0, 2, 1) / np.sqrt(q.shape[-1])
    scores = np.where(visible, scores, -1e10)
    out = softmax(scores) @ v                               # [n_head, n_new, d]
    out = out.transpose(1, 0, 2).reshape(n_new, n_embd)
    return linear(out, **c_proj)


def transformer_block(x, blk, n_head, slot):
    x = x + mha(layer_norm(x, **blk["ln_1"]), **blk["attn"], n_head=n_head, slot=slot)
    return x + ffn(layer_norm(x, **blk["ln_2"]), **blk["mlp"])


def forward(ids, params, n_head, cache=None):
    cache = cache if cache is not None else new_cache(len(params["blocks"]))
    past = 0 if cache[0]["k"] is None else cache[0]["k"].shape[1]
    x = params["wte"][ids] + params["wpe"][past:past + len(ids)]
    for blk, slot in zip(params["blocks"], cache):
        x = transformer_block(x, blk, n_head, slot)
    return layer_norm(x, **params["ln_f"]) @ params["wte"].T


def generate(prompt, params, n_head, n_steps):
    cache = new_cache(len(params["blocks"]))
    ids, out = list(prompt), []
    for _ in range(n_steps):
        nxt = int(np.argmax(forward(ids, params, n_head, cache)[-1]))
        out.append(nxt)
        ids = [nxt]
    return out
