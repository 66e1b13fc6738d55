"""GPT-2 forward pass for code completion, ported to numpy.

Parameters are a flat dict with the names of the checkpoint (``h.0.attn.c_attn.w``
and so on; matrices are [in, out]).  ``forward`` can go on from ``past``, the list
of (key, value) arrays it returned before.
"""
import numpy as np


def layer_norm(x, g, b, eps=1e-5):
    mu = x.mean(-1, keepdims=True)
    var = ((x - mu) ** 2).mean(-1, keepdims=True)
    return (x - mu) / np.sqrt(var + eps) * g + b


def gelu(x):
    return 0.5 * x * (1 + np.tanh(np.sqrt(2 / np.pi) * (x + 0.044715 * x ** 3)))


def attention(x, p, name, n_head, past=None):
    t, c = x.shape
    qkv = x @ p[name + ".c_attn.w"] + p[name + ".c_attn.b"]
    q, k, v = [a.reshape(t, n_head, c // n_head).swapaxes(0, 1) for a in np.split(qkv, 3, axis=-1)]
    if past is not None:
        k = np.concatenate([past[0], k], axis=1)
        v = np.concatenate([past[1], v], axis=1)
    total = k.shape[1]
    scores = q @ k.swapaxes(1, 2) / np.sqrt(c // n_head)
    mask = np.tri(t, total, total - t, dtype=bool)
    scores = np.where(mask, scores, -1e10)
    scores = np.exp(scores - scores.max(-1, keepdims=True))
    weights = scores / scores.sum(-1, keepdims=True)
    y = (weights @ v).swapaxes(0, 1).reshape(t, c)
    return y @ p[name + ".c_proj.w"] + p[name + ".c_proj.b"], (k, v)


def forward(ids, p, n_head, past=None):
    """ids [t] -> (logits [t, vocab], past)"""
    n_layer = 1 + max(int(k.split(".")[1]) for k in p if k.startswith("h."))
    start = 0 if past is None else past[0][0].shape[1]
    x = p["wte"][ids] + p["wpe"][start:start + len(ids)]
    present = []
    for i in range(n_layer):
        n = f"h.{i}"
        a, kv = attention(layer_norm(x, p[n + ".ln_1.g"], p[n + ".ln_1.b"]), p, n + ".attn",
                          n_head, None if past is None else past[i])
        x = x + a
        h = layer_norm(x, p[n + ".ln_2.g"], p[n + ".ln_2.b"])
        h = gelu(h @ p[n + ".mlp.c_fc.w"] + p[n + ".mlp.c_fc.b"])
        x = x + h @ p[n + ".mlp.c_proj.w"] + p[n + ".mlp.c_proj.b"]
        present.append(kv)
    return layer_norm(x, p["ln_f.g"], p["ln_f.b"]) @ p["wte"].T, present


def random_params(vocab=40, ctx=32, c=24, layers=2, seed=0):
    r = np.random.default_rng(seed)
    w = lambda *s: r.normal(0, 0.2, s)
    p = {"wte": w(vocab, c), "wpe": w(ctx, c), "ln_f.g": np.ones(c), "ln_f.b": w(c)}
    for i in range(layers):
        for ln in ("ln_1", "ln_2"):
            p[f"h.{i}.{ln}.g"], p[f"h.{i}.{ln}.b"] = np.ones(c) + w(c), w(c)
        for nm, a, b in (("attn.c_attn", c, 3 * c), ("attn.c_proj", c, c),
                         ("mlp.c_fc", c, 4 * c), ("mlp.c_proj", 4 * c, c)):
            p[f"h.{i}.{nm}.w"], p[f"h.{i}.{nm}.b"] = w(a, b), w(b)
    return p


if __name__ == "__main__":
    params = random_params()
    logits, past = forward(np.array([3, 9, 1]), params, n_head=3)
    for _ in range(5):
        nxt = int(logits[-1].argmax())
        print(nxt, end=" ")
        logits, past = forward(np.array([nxt]), params, n_head=3, past=past)
