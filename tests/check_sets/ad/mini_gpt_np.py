import numpy as np


def gelu(x):
    return 0.5 * x * (1 + np.tanh(np.sqrt(2 / np.pi) * (x + 0.044715 * x ** 3)))


def layer_norm(x, g, b, eps=1e-5):
    mu = x.mean(-1, keepdims=True)
    var = x.var(-1, keepdims=True)
    return g * (x - mu) / np.sqrt(var + eps) + b


def linear(x, w, b):
    return x @ w + b


def softmax(x):
    ex = np.exp(x - x.max(-1, keepdims=True))
    return ex / ex.sum(-1, keepdims=True)


def causal_mha(x, c_attn, c_proj, n_head):  # [n_seq, n_embd] -> [n_seq, n_embd]
    """masked multi-head self attention, a position sees itself and what came before"""
    x = linear(x, **c_attn)
    qkv = np.split(x, 3, axis=-1)
    q, k, v = [np.stack(np.split(t, n_head, axis=-1)) for t in qkv]
    n_seq = x.shape[0]
    visible = np.tril(np.ones((n_seq, n_seq), dtype=x.dtype), k=1)
    att = q @ k.transpose(0, 2, 1) / np.sqrt(q.shape[-1])
    att = softmax(att * visible)
    out = np.concatenate(list(att @ v), axis=-1)
    return linear(out, **c_proj)


def block(x, mlp, attn, ln_1, ln_2, n_head):
    x = x + causal_mha(layer_norm(x, **ln_1), **attn, n_head=n_head)
    h = layer_norm(x, **ln_2)
    return x + linear(gelu(linear(h, **mlp["c_fc"])), **mlp["c_proj"])


def gpt(ids, wte, wpe, blocks, ln_f, n_head):
    x = wte[ids] + wpe[: len(ids)]
    for b in blocks:
        x = block(x, **b, n_head=n_head)
    return layer_norm(x, **ln_f) @ wte.T


def random_weights(vocab=50, ctx=32, d=24, n_layer=2, seed=0):
    r = np.random.default_rng(seed)
    lin = lambda i, o: {"w": r.normal(size=(i, o)) * 0.2, "b": np.zeros(o)}
    ln = lambda: {"g": np.ones(d), "b": np.zeros(d)}
    blocks = [{"attn": {"c_attn": lin(d, 3 * d), "c_proj": lin(d, d)},
               "mlp": {"c_fc": lin(d, 4 * d), "c_proj": lin(4 * d, d)},
               "ln_1": ln(), "ln_2": ln()} for _ in range(n_layer)]
    return dict(wte=r.normal(size=(vocab, d)), wpe=r.normal(size=(ctx, d)), blocks=blocks, ln_f=ln())
