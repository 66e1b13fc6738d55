# Port of a Gemma-2-like layer to plain numpy, to check the weights that our converter writes.
# Layout of everything: [batch, time, heads, dim]. Causal. Odd layers are local, even layers are global.
import numpy as np

CONFIG = dict(
    d_model=32,
    n_head=4,
    n_kv=2,
    d_head=8,
    query_pre_attn_scalar=16,   # scores are divided by sqrt of this, NOT of d_head (as in the 27B model)
    attn_softcap=50.0,
    window=3,                   # local layers: the token itself and the 2 before
    rope_base=10000.0,
)


def rms_norm(x, w, eps=1e-6):
    y = x / np.sqrt((x ** 2).mean(-1, keepdims=True) + eps)
    return y * (1.0 + w)


def rope(x, pos, base):
    d = x.shape[-1]
    ts = base ** (2.0 * np.arange(d // 2) / d)
    ang = pos[:, None] / ts[None, :]
    sin, cos = np.sin(ang)[None, :, None, :], np.cos(ang)[None, :, None, :]
    a, b = x[..., : d // 2], x[..., d // 2:]
    return np.concatenate([a * cos - b * sin, b * cos + a * sin], axis=-1)


def soft_cap(x, cap):
    return x if cap is None else cap * np.tanh(x / cap)


def gemma_attention(x, w, layer, cfg=CONFIG):
    """x [B, T, d_model]; w: dict with q [d_model, n_head, d_head], k, v [d_model, n_kv, d_head],
    o [n_head, d_head, d_model]. Scores: scale, then cap, then mask."""
    B, T, _ = x.shape
    pos = np.arange(T)
    q = rope(np.einsum("btd,dhe->bthe", x, w["q"]), pos, cfg["rope_base"])
    k = rope(np.einsum("btd,dhe->bthe", x, w["k"]), pos, cfg["rope_base"])
    v = np.einsum("btd,dhe->bthe", x, w["v"])

    q = q * cfg["query_pre_attn_scalar"] ** -0.5
    q = q.reshape(B, T, cfg["n_kv"], -1, cfg["d_head"])
    s = np.einsum("btkge,bske->bkgts", q, k)
    s = soft_cap(s, cfg["attn_softcap"])

    delta = pos[:, None] - pos[None, :]
    keep = delta >= 0
    if layer % 2 == 1:
        keep &= delta < cfg["window"]
    s = np.where(keep, s, -np.inf)

    s = s - s.max(axis=-1, keepdims=True)
    p = np.exp(s)
    p /= p.sum(axis=-1, keepdims=True)
    y = np.einsum("bkgts,bske->btkge", p, v).reshape(B, T, cfg["n_head"], cfg["d_head"])
    return np.einsum("bthe,hed->btd", y, w["o"])


def layer_forward(x, params, layer, cfg=CONFIG):
    h = rms_norm(x, params["pre_norm"])
    x = x + rms_norm(gemma_attention(h, params["attn"], layer, cfg), params["post_norm"])
    h = rms_norm(x, params["pre_ffw"])
    gate = h @ params["gate"]
    gate = 0.5 * gate * (1 + np.tanh(np.sqrt(2 / np.pi) * (gate + 0.044715 * gate ** 3)))
    return x + rms_norm((gate * (h @ params["up"])) @ params["down"], params["post_ffw"])


def random_params(rng, cfg=CONFIG):
    D, H, K, E = cfg["d_model"], cfg["n_head"], cfg["n_kv"], cfg["d_head"]
    n = lambda *s: rng.standard_normal(s) / np.sqrt(s[0])
    return dict(
        attn=dict(q=n(D, H, E), k=n(D, K, E), v=n(D, K, E), o=n(H, E, D)),
        pre_norm=np.zeros(D), post_norm=np.zeros(D), pre_ffw=np.zeros(D), post_ffw=np.zeros(D),
        gate=n(D, 2 * D), up=n(D, 2 * D), down=n(2 * D, D))


if __name__ == "__main__":
    r = np.random.default_rng(0)
    p, x = random_params(r), r.standard_normal((2, 7, 32))
    for l in range(2):
        x = layer_forward(x, p, l)
    print(x.std())
