"""Gemma-2 block in jax.numpy for the blog post "reading open weights, part 4".

config example
    {"num_heads": 4, "num_kv": 2, "head_dim": 16, "attn_softcap": 50.0,
     "query_pre_attn_scalar": 16, "final_softcap": 30.0}
"""
import jax
import jax.numpy as jnp


def rmsnorm(x, scale, eps=1e-6):
    v = jnp.mean(jnp.square(x), axis=-1, keepdims=True)
    return x * jax.lax.rsqrt(v + eps) * (1 + scale)


def softcap(x, cap):
    return cap * jnp.tanh(x / cap)


def apply_rope(x, positions, base=10_000):
    # x: [B, L, N, H], positions: [B, L]
    half = x.shape[-1] // 2
    timescale = base ** (jnp.arange(half) / half)
    ang = positions[..., None, None] / timescale
    s, c = jnp.sin(ang), jnp.cos(ang)
    a, b = jnp.split(x, 2, axis=-1)
    return jnp.concatenate([a * c - b * s, b * c + a * s], axis=-1)


def attend(cfg, p, x, positions, mask):
    """mask: bool [B, L, L], True = may attend (causal and not padding)"""
    B, L, _ = x.shape
    q = jnp.einsum("bld,ndh->blnh", x, p["q"])
    k = jnp.einsum("bld,ndh->blnh", x, p["k"])
    v = jnp.einsum("bld,ndh->blnh", x, p["v"])
    q = apply_rope(q, positions) * cfg["query_pre_attn_scalar"] ** -0.5
    k = apply_rope(k, positions)
    group = cfg["num_heads"] // cfg["num_kv"]
    q = q.reshape(B, L, cfg["num_kv"], group, cfg["head_dim"])
    logits = jnp.einsum("blkgh,bmkh->bkglm", q, k)
    logits = jnp.where(mask[:, None, None], logits, -1e30)
    logits = softcap(logits, cfg["attn_softcap"])
    probs = jax.nn.softmax(logits, axis=-1)
    enc = jnp.einsum("bkglm,bmkh->blkgh", probs, v)
    enc = enc.reshape(B, L, cfg["num_heads"], cfg["head_dim"])
    return jnp.einsum("blnh,nhd->bld", enc, p["o"])


def feed_forward(p, x):
    return (jax.nn.gelu(x @ p["gate"]) * (x @ p["up"])) @ p["down"]


def block(cfg, p, x, positions, mask):
    h = attend(cfg, p["attn"], rmsnorm(x, p["pre_attn"]), positions, mask)
    x = x + rmsnorm(h, p["post_attn"])
    h = feed_forward(p["mlp"], rmsnorm(x, p["pre_ffw"]))
    return x + rmsnorm(h, p["post_ffw"])


def forward(cfg, params, tokens, pad_id=0):
    B, L = tokens.shape
    valid = tokens != pad_id
    positions = jnp.clip(jnp.cumsum(valid, -1) - 1, 0)
    mask = jnp.tri(L, dtype=bool)[None] & valid[:, None, :]
    x = params["embedder"][tokens] * params["embedder"].shape[1] ** 0.5
    for p in params["blocks"]:
        x = block(cfg, p, x, positions, mask)
    x = rmsnorm(x, params["final_norm"])
    return softcap(x @ params["embedder"].T, cfg["final_softcap"])


def loss(cfg, params, tokens, pad_id=0):
    logp = jax.nn.log_softmax(forward(cfg, params, tokens[:, :-1], pad_id))
    tgt = tokens[:, 1:]
    nll = -jnp.take_along_axis(logp, tgt[..., None], -1)[..., 0]
    w = (tgt != pad_id).astype(nll.dtype)
    return (nll * w).sum() / w.sum()
