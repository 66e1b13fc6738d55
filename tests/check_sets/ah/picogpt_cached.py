"""GPT-2 forward pass in plain numpy, weights in the nested dict that the TF checkpoint loader gives.

params["blocks"][i]["attn"]["c_attn"] = {"w": [n_embd, 3*n_embd], "b": [3*n_embd]}   (q | k | v)
"""
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


def mha(x, c_attn, c_proj, n_head, past=None):
    # x: [n_new, n_embd]; past: (k, v), each [n_head, n_past, n_embd // n_head]
    n_new, n_embd = x.shape
    qkv = linear(x, **c_attn)
    q, k, v = (
        part.reshape(n_new, n_head, -1).transpose(1, 0, 2) for part in np.split(qkv, 3, axis=-1)
    )
    if past is not None:
        k = np.concatenate([past[0], k], axis=1)
        v = np.concatenate([past[1], v], axis=1)
    n_all = k.shape[1]
    visible = np.tri(n_new, n_all, k=n_all - n_new, dtype=bool)
    att = q @ k.transpose(0, 2, 1) / np.sqrt(n_embd // n_head)
    att = softmax(np.where(visible, att, -np.inf))
    out = (att @ v).transpose(1, 0, 2).reshape(n_new, n_embd)
    return linear(out, **c_proj), (k, v)


def block(x, mlp, attn, ln_1, ln_2, n_head, past=None):
    a, present = mha(layer_norm(x, **ln_1), **attn, n_head=n_head, past=past)
    x = x + a
    return x + ffn(layer_norm(x, **ln_2), **mlp), present


def gpt2(ids, wte, wpe, blocks, ln_f, n_head, cache=None):
    start = 0 if cache is None else cache[0][0].shape[1]
    x = wte[ids] + wpe[np.arange(start, start + len(ids))]
    new = []
    for i, blk in enumerate(blocks):
        x, present = block(x, **blk, n_head=n_head, past=None if cache is None else cache[i])
        new.append(present)
    return layer_norm(x, **ln_f) @ wte.T, new


def init(rng, vocab, n_ctx, n_embd, n_layer):
    lin = lambda i, o: {"w": rng.standard_normal((i, o)) * i**-0.5, "b": rng.standard_normal(o) * 0.1}
    ln = lambda: {"g": np.ones(n_embd), "b": np.zeros(n_embd)}
    return {
        "wte": rng.standard_normal((vocab, n_embd)),
        "wpe": rng.standard_normal((n_ctx, n_embd)) * 0.1,
        "ln_f": ln(),
        "blocks": [
            {
                "attn": {"c_attn": lin(n_embd, 3 * n_embd), "c_proj": lin(n_embd, n_embd)},
                "mlp": {"c_fc": lin(n_embd, 4 * n_embd), "c_proj": lin(4 * n_embd, n_embd)},
                "ln_1": ln(),
                "ln_2": ln(),
            }
            for _ in range(n_layer)
        ],
    }


def generate(ids, params, n_head, n_tokens):
    logits, cache = gpt2(ids, **params, n_head=n_head)
    out = list(ids)
    for _ in range(n_tokens):
        nxt = int(np.argmax(logits[-1]))
        out.append(nxt)
        logits, cache = gpt2([nxt], **params, n_head=n_head, cache=cache)
    return out[len(ids):]


if __name__ == "__main__":
    p = init(np.random.default_rng(0), 50, 32, 16, 2)
    print(generate([3, 1, 4, 1, 5], p, n_head=4, n_tokens=8))
