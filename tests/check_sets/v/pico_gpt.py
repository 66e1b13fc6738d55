import numpy as np


def layer_norm(x, g, b, eps=1e-5):
    mu = x.mean(-1, keepdims=True)
    return g * (x - mu) / np.sqrt(x.var(-1, keepdims=True) + eps) + b


def gelu(x):
    return 0.5 * x * (1 + np.tanh(np.sqrt(2 / np.pi) * (x + 0.044715 * x**3)))


def softmax(x):
    z = np.exp(x - np.max(x, axis=-1, keepdims=True))
    return z / np.sum(z, axis=-1, keepdims=True)


def mha(x, p, n_head, past=None):  # [n, d] -> [n, d]
    q, k, v = np.split(x @ p["w_qkv"] + p["b_qkv"], 3, axis=-1)
    if past is not None:
        k, v = np.vstack([past[0], k]), np.vstack([past[1], v])
    nq, nk = len(q), len(k)
    hide = (1 - np.tri(nq, nk, nk - nq)) * -1e10
    heads = []
    for qh, kh, vh in zip(*(np.split(t, n_head, axis=-1) for t in (q, k, v))):
        heads.append(softmax(qh @ kh.T / np.sqrt(qh.shape[-1]) + hide) @ vh)
    return np.hstack(heads) @ p["w_o"] + p["b_o"], (k, v)


def gpt(ids, params, n_head, cache=None):
    """ids: the new tokens only. Returns the logits of each and the cache to hand back in."""
    start = 0 if cache is None else len(cache[0][0])
    x = params["wte"][ids] + params["wpe"][start : start + len(ids)]
    kept = []
    for i, blk in enumerate(params["blocks"]):
        a, kv = mha(layer_norm(x, *blk["ln_1"]), blk["attn"], n_head, None if cache is None else cache[i])
        kept.append(kv)
        x = x + a
        h = layer_norm(x, *blk["ln_2"])
        x = x + gelu(h @ blk["fc"]) @ blk["proj"]
    return layer_norm(x, *params["ln_f"]) @ params["wte"].T, kept


def generate(ids, params, n_head, n_new):
    cache, out, feed = None, list(ids), list(ids)
    for _ in range(n_new):
        logits, cache = gpt(np.array(feed), params, n_head, cache)
        feed = [int(logits[-1].argmax())]
        out += feed
    return out


def init(rng, vocab=50, ctx=24, d=16, layers=2):
    w = lambda *s: rng.normal(0, 0.3, s)
    ln = lambda: (np.ones(d), np.zeros(d))
    block = lambda: {
        "ln_1": ln(), "ln_2": ln(), "fc": w(d, 4 * d), "proj": w(4 * d, d),
        "attn": {"w_qkv": w(d, 3 * d), "b_qkv": w(3 * d), "w_o": w(d, d), "b_o": w(d)},
    }
    return {"wte": w(vocab, d), "wpe": w(ctx, d), "ln_f": ln(), "blocks": [block() for _ in range(layers)]}


if __name__ == "__main__":
    params = init(np.random.default_rng(7))
    print(generate([3, 1, 4, 1, 5], params, n_head=4, n_new=8))
