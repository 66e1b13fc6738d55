"""A tiny GPT-2 block in NumPy: a dict of weights, a key/value cache and nothing else.

The parameter names follow the OpenAI checkpoint (c_attn, c_proj, ...), so
`block(x, **params, n_head=12)` works with the arrays straight out of the .ckpt file.
`past` is None or the (k, v) of the tokens before x; the new one is returned.
"""
import numpy as np


def gelu(x):
    return 0.5 * x * (1 + np.tanh(np.sqrt(2 / np.pi) * (x + 0.044715 * x ** 3)))


def softmax(x):
    e = np.exp(x - x.max(axis=-1, keepdims=True))
    return e / e.sum(axis=-1, keepdims=True)


def layer_norm(x, g, b, eps=1e-5):
    mu = x.mean(-1, keepdims=True)
    var = x.var(-1, keepdims=True)
    return g * (x - mu) / np.sqrt(var + eps) + b


def linear(x, w, b):
    return x @ w + b


def mha(x, c_attn, c_proj, n_head, past=None):
    # x: [n_new, n_embd]
    qkv = linear(x, **c_attn)
    q, k, v = (
        np.stack(np.split(part, n_head, axis=-1)) for part in np.split(qkv, 3, axis=-1)
    )  # each [n_head, n_new, n_embd / n_head]
    if past is not None:
        k = np.concatenate([past[0], k], axis=1)
        v = np.concatenate([past[1], v], axis=1)
    n_new, n_all = q.shape[1], k.shape[1]
    # row r is token number n_all - n_new + r
    hidden = np.triu(np.ones((n_new, n_all)), k=n_all - n_new + 1)
    scores = q @ k.transpose(0, 2, 1) / np.sqrt(q.shape[-1]) - 1e10 * hidden
    heads = softmax(scores) @ v
    return linear(np.hstack(list(heads)), **c_proj), (k, v)


def ffn(x, c_fc, c_proj):
    return linear(gelu(linear(x, **c_fc)), **c_proj)


def block(x, attn, mlp, ln_1, ln_2, n_head, past=None):
    a, present = mha(layer_norm(x, **ln_1), **attn, n_head=n_head, past=past)
    x = x + a
    return x + ffn(layer_norm(x, **ln_2), **mlp), present


def random_params(n_embd, seed=0):
    r = np.random.default_rng(seed)
    lin = lambda i, o: {"w": r.normal(size=(i, o)) / np.sqrt(i), "b": r.normal(size=o) * 0.02}
    ln = lambda: {"g": np.ones(n_embd), "b": np.zeros(n_embd)}
    return {
        "attn": {"c_attn": lin(n_embd, 3 * n_embd), "c_proj": lin(n_embd, n_embd)},
        "mlp": {"c_fc": lin(n_embd, 4 * n_embd), "c_proj": lin(4 * n_embd, n_embd)},
        "ln_1": ln(),
        "ln_2": ln(),
    }


if __name__ == "__main__":
    p = random_params(24)
    x = np.random.default_rng(1).normal(size=(7, 24))
    full, _ = block(x, **p, n_head=3)
    a, past = block(x[:4], **p, n_head=3)
    b, _ = block(x[4:], **p, n_head=3, past=past)
    print(np.abs(full - np.concatenate([a, b])).max())
