"""A LLaMA-like decoder block as pure JAX functions over a dict of weights.

From the series "JAX, one function per evening".  Everything is unbatched; use
jax.vmap.  Weight names: wq [D, H, d], wk / wv [D, Hkv, d], wo [H, d, D],
w_gate / w_up [D, F], w_down [F, D], norm_attn / norm_mlp [D].
"""
import jax
import jax.numpy as jnp
from jax import Array


def rms(x: Array, g: Array) -> Array:
    return x * jax.lax.rsqrt(jnp.mean(x * x, -1, keepdims=True) + 1e-6) * g


def rope(x: Array, theta: float = 10_000.0) -> Array:
    """x [T, H, d], split halves."""
    half = x.shape[-1] // 2
    w = theta ** (-jnp.arange(half) / half)
    a = (jnp.arange(x.shape[0])[:, None] * w)[:, None, :]
    x1, x2 = x[..., :half], x[..., half:]
    return jnp.concatenate([x1 * jnp.cos(a) - x2 * jnp.sin(a),
                            x2 * jnp.cos(a) + x1 * jnp.sin(a)], axis=-1)


def attention(p: dict, x: Array) -> Array:
    t = x.shape[0]
    q = rope(jnp.einsum("td,dhk->thk", x, p["wq"]))
    k = rope(jnp.einsum("td,dhk->thk", x, p["wk"]))
    v = jnp.einsum("td,dhk->thk", x, p["wv"])
    groups = q.shape[1] // k.shape[1]
    k = jnp.repeat(k, groups, axis=1)
    v = jnp.repeat(v, groups, axis=1)

    logits = jnp.einsum("qhk,shk->hqs", q, k) / jnp.sqrt(q.shape[-1])
    logits = jnp.where(jnp.tri(t, dtype=bool), logits, -jnp.inf)
    numer = jnp.exp(logits - jnp.max(logits, axis=-1, keepdims=True))
    denom = jnp.sum(jnp.exp(logits), axis=-1, keepdims=True)
    y = jnp.einsum("hqs,shk->qhk", numer / denom, v)
    return jnp.einsum("qhk,hkd->qd", y, p["wo"])


def block(p: dict, x: Array) -> Array:
    """x [T, D] -> [T, D]"""
    x = x + attention(p, rms(x, p["norm_attn"]))
    h = rms(x, p["norm_mlp"])
    return x + (jax.nn.silu(h @ p["w_gate"]) * (h @ p["w_up"])) @ p["w_down"]


def init(key, dim=24, heads=4, kv_heads=2, head_dim=6, ff=40) -> dict:
    ks = jax.random.split(key, 7)

    def n(k, *s):
        return jax.random.normal(k, s) * s[0] ** -0.5

    return dict(
        wq=n(ks[0], dim, heads, head_dim), wk=n(ks[1], dim, kv_heads, head_dim),
        wv=n(ks[2], dim, kv_heads, head_dim), wo=n(ks[3], heads, head_dim, dim),
        w_gate=n(ks[4], dim, ff), w_up=n(ks[5], dim, ff), w_down=n(ks[6], ff, dim),
        norm_attn=jnp.ones(dim), norm_mlp=jnp.ones(dim),
    )


if __name__ == "__main__":
    params = init(jax.random.PRNGKey(0))
    print(block(params, jax.random.normal(jax.random.PRNGKey(1), (9, 24))).shape)
