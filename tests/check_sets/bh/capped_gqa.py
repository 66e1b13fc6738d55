"""Attention of our Gemma-2-like recipe LM, functional JAX.

cfg is a plain dict (loaded from yaml elsewhere):
    num_heads, num_kv_heads, head_dim, query_scalar, softcap, window, theta
* logits are scaled by query_scalar ** -0.5 (NOT head_dim: the 27B config sets
  query_scalar = d_model / num_heads, which differs from head_dim)
* soft capping acts before masking
* window=None -> global layer; window=W -> token t sees t-W+1..t (W incl. itself)
* rope in half-split layout: channel i is paired with i + head_dim/2
"""
import jax
import jax.numpy as jnp

DEFAULT_CFG = dict(num_heads=4, num_kv_heads=2, head_dim=16, query_scalar=24,
                   softcap=50.0, window=None, theta=10000.0)
K_MASK = -2.3819763e38


def rope(x, positions, theta):
    """x [B, T, N, H], positions [B, T]"""
    half = x.shape[-1] // 2
    timescale = theta ** (jnp.arange(half) / half)
    ang = positions[..., None, None] / timescale
    sin, cos = jnp.sin(ang), jnp.cos(ang)
    a, b = x[..., :half], x[..., half:]
    return jnp.concatenate([a * cos - b * sin, b * cos + a * sin], -1).astype(x.dtype)


def visibility(q_pos, k_pos, window):
    """bool [B, T, S], True = may look"""
    vis = k_pos[:, None, :] <= q_pos[:, :, None]
    if window is not None:
        vis &= k_pos[:, None, :] > q_pos[:, :, None] - window
    return vis


def attend(params, cfg, x, positions, cache=None):
    """x [B, T, D], positions [B, T] absolute.

    cache: None or dict(k, v, pos) of earlier tokens (already rotated keys).
    Returns (y [B, T, D], new_cache).
    """
    n, kv, h = cfg["num_heads"], cfg["num_kv_heads"], cfg["head_dim"]
    q = jnp.einsum("btd,dnh->btnh", x, params["q"])
    k, v = jnp.einsum("bsd,cdkh->cbskh", x, params["kv"])
    q = rope(q, positions, cfg["theta"]) * cfg["query_scalar"] ** -0.5
    k = rope(k, positions, cfg["theta"])
    k_pos = positions
    if cache is not None:
        k = jnp.concatenate([cache["k"], k], 1)
        v = jnp.concatenate([cache["v"], v], 1)
        k_pos = jnp.concatenate([cache["pos"], k_pos], 1)

    b, t = x.shape[:2]
    # query head i belongs to kv head i // (n // kv)
    q = q.reshape(b, t, kv, n // kv, h)
    logits = jnp.einsum("btkgh,bskh->bkgts", q, k).astype(jnp.float32)
    if cfg["softcap"]:
        logits = jnp.tanh(logits / cfg["softcap"]) * cfg["softcap"]
    vis = visibility(positions, k_pos, cfg["window"])
    logits = jnp.where(vis[:, None, None], logits, K_MASK)
    probs = jax.nn.softmax(logits, axis=-1).astype(v.dtype)
    out = jnp.einsum("bkgts,bskh->btkgh", probs, v).reshape(b, t, n, h)
    y = jnp.einsum("btnh,nhd->btd", out, params["o"])
    return y, dict(k=k, v=v, pos=k_pos)


def init(key, d_model, cfg):
    a, b, c = jax.random.split(key, 3)
    n, kv, h = cfg["num_heads"], cfg["num_kv_heads"], cfg["head_dim"]
    s = d_model ** -0.5
    return {"q": jax.random.normal(a, (d_model, n, h)) * s,
            "kv": jax.random.normal(b, (2, d_model, kv, h)) * s,
            "o": jax.random.normal(c, (n, h, d_model)) * (n * h) ** -0.5}


if __name__ == "__main__":
    p = init(jax.random.PRNGKey(1), 32, DEFAULT_CFG)
    x = jax.random.normal(jax.random.PRNGKey(2), (1, 6, 32))
    pos = jnp.arange(6)[None]
    full, _ = attend(p, DEFAULT_CFG, x, pos)
    part, c = attend(p, DEFAULT_CFG, x[:, :4], pos[:, :4])
    rest, _ = attend(p, DEFAULT_CFG, x[:, 4:], pos[:, 4:], c)
    print(jnp.abs(full - jnp.concatenate([part, rest], 1)).max())
