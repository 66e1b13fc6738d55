"""GPT-2 inference in plain NumPy with a key/value cache (single sequence, no batching)."""
import numpy as np


def gelu(x):
    return 0.5 * x * (1 + np.tanh(np.sqrt(2 / np.pi) * (x + 0.044715 * x ** 3)))


def softmax(x):
    e = np.exp(x - np.max(x, axis=-1, keepdims=True))
    return e / np.sum(e, axis=-1, keepdims=True)


def layer_norm(x, g, b, eps=1e-5):
    mean = x.mean(-1, keepdims=True)
    var = x.var(-1, keepdims=True)
    return g * (x - mean) / np.sqrt(var + eps) + b


def init_params(n_embd=16, seed=0):
    rng = np.random.default_rng(seed)
    mat = lambda i, o: {"w": rng.normal(0, i ** -0.5, (i, o)), "b": rng.normal(0, 0.02, o)}
    ln = lambda: {"g": np.ones(n_embd), "b": np.zeros(n_embd)}
    return {
        "ln_1": ln(),
        "attn": {"c_attn": mat(n_embd, 3 * n_embd), "c_proj": mat(n_embd, n_embd)},
        "ln_2": ln(),
        "mlp": {"c_fc": mat(n_embd, 4 * n_embd), "c_proj": mat(4 * n_embd, n_embd)},
    }


def linear(x, w, b):
    return x @ w + b


def mha(x, c_attn, c_proj, n_head=4, cache=None):
    """Causal self-attention of the new tokens x [n_new, n_embd].

    cache: (k, v), each [n_past, n_embd], or None.
    Returns [n_new, n_embd] and the cache including the new tokens.
    """
    q, k, v = np.split(linear(x, **c_attn), 3, axis=-1)
    if cache is not None:
        k = np.vstack([cache[0], k])
        v = np.vstack([cache[1], v])
    n_new, n_all = q.shape[0], k.shape[0]

    hidden = np.arange(n_all)[None, :] > np.arange(n_all - n_new, n_all)[:, None]
    heads = []
    for qh, kh, vh in zip(*(np.split(t, n_head, axis=-1) for t in (q, k, v))):
        logits = qh @ kh.T / np.sqrt(qh.shape[-1])
        logits = np.where(hidden, -np.inf, logits)
        heads.append(softmax(logits) @ vh)
    return linear(np.hstack(heads), **c_proj), (k, v)


def transformer_block(x, params, n_head=4, cache=None):
    a, cache = mha(layer_norm(x, **params["ln_1"]), **params["attn"], n_head=n_head, cache=cache)
    x = x + a
    h = gelu(linear(layer_norm(x, **params["ln_2"]), **params["mlp"]["c_fc"]))
    return x + linear(h, **params["mlp"]["c_proj"]), cache
