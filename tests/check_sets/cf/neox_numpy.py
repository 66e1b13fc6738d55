"""GPT-NeoX layer in numpy, reading the weights of the HF checkpoint.

``attention.query_key_value`` is fused **per head**: its output is to be read as
(heads, 3, head_size), i.e. q of head 0, k of head 0, v of head 0, q of head 1 ...
Rotary embedding covers the first quarter of each head (``rotary_pct``), half
splitting within that part.  Attention and MLP run in parallel on the residual.
"""
import numpy as np

NEG = np.finfo(np.float32).min


def ln(x, w, name):
    x = x - x.mean(-1, keepdims=True)
    x = x / np.sqrt((x ** 2).mean(-1, keepdims=True) + 1e-5)
    return x * w[name + ".weight"] + w[name + ".bias"]


def affine(x, w, name):
    return x @ w[name + ".weight"].T + w[name + ".bias"]


def partial_rope(x, pct):
    t, _, d = x.shape                       # (T, heads, head_size)
    r = int(d * pct)
    freq = 10000.0 ** (-np.arange(0, r, 2) / r)
    ang = np.arange(t)[:, None] * freq
    cos = np.tile(np.cos(ang), 2)[:, None, :]
    sin = np.tile(np.sin(ang), 2)[:, None, :]
    rot, rest = x[..., :r], x[..., r:]
    flipped = np.concatenate([-rot[..., r // 2:], rot[..., : r // 2]], axis=-1)
    return np.concatenate([rot * cos + flipped * sin, rest], axis=-1)


def attention(w, x, n_head, pct):
    t, c = x.shape
    fused = affine(x, w, "attention.query_key_value")
    fused = fused.reshape(t, 3, n_head, c // n_head)
    q, k, v = fused[:, 0], fused[:, 1], fused[:, 2]
    q, k = partial_rope(q, pct), partial_rope(k, pct)

    scores = np.einsum("ihd,jhd->hij", q, k) / np.sqrt(c // n_head)
    scores = np.where(np.tri(t, dtype=bool), scores, NEG)
    scores = np.exp(scores - scores.max(-1, keepdims=True))
    probs = scores / scores.sum(-1, keepdims=True)
    y = np.einsum("hij,jhd->ihd", probs, v).reshape(t, c)
    return affine(y, w, "attention.dense")


def neox_layer(w, x, n_head=4, rotary_pct=0.25):
    """w: dict of one layer, x: (T, hidden) hidden states -> (T, hidden)."""
    a = attention(w, ln(x, w, "input_layernorm"), n_head, rotary_pct)
    h = affine(ln(x, w, "post_attention_layernorm"), w, "mlp.dense_h_to_4h")
    h = 0.5 * h * (1 + np.tanh(np.sqrt(2 / np.pi) * (h + 0.044715 * h ** 3)))
    return x + a + affine(h, w, "mlp.dense_4h_to_h")


def dummy_layer(hidden=64, seed=0):
    rng = np.random.default_rng(seed)
    w = {}
    for name, o, i in (("attention.query_key_value", 3 * hidden, hidden),
                       ("attention.dense", hidden, hidden),
                       ("mlp.dense_h_to_4h", 4 * hidden, hidden),
                       ("mlp.dense_4h_to_h", hidden, 4 * hidden)):
        w[name + ".weight"] = rng.normal(size=(o, i)) / np.sqrt(i)
        w[name + ".bias"] = rng.normal(size=o) * 0.02
    for name in ("input_layernorm", "post_attention_layernorm"):
        w[name + ".weight"] = np.ones(hidden)
        w[name + ".bias"] = np.zeros(hidden)
    return w
