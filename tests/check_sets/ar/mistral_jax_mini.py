"""mistral-7b in ~100 lines of jax (sizes shrunk).  Pure functions, params are pytrees.

sliding_window = W means, as in the Mistral paper: a token attends to W tokens, itself and the
W - 1 before it.  Groups: query heads [g*r, (g+1)*r) use kv head g.
"""
from typing import NamedTuple
import jax
import jax.numpy as jnp


class Cfg(NamedTuple):
    dim: int = 32
    n_heads: int = 4
    n_kv: int = 2
    head_dim: int = 8
    sliding_window: int = 4
    hidden: int = 64
    theta: float = 10000.0


def rope(x, pos, theta):
    """x [T, H, D], interleaved pairs seen as complex numbers"""
    d = x.shape[-1]
    freq = theta ** (-jnp.arange(0, d, 2) / d)
    ang = pos[:, None, None] * freq
    z = jax.lax.complex(x[..., 0::2], x[..., 1::2]) * jnp.exp(1j * ang)
    return jnp.stack([z.real, z.imag], axis=-1).reshape(x.shape)


def window_mask(t, window):
    i = jnp.arange(t)[:, None]
    j = jnp.arange(t)[None, :]
    return (j <= i) & (i - j <= window)


def attention(p, x, cfg: Cfg):
    """x [T, dim] -> [T, dim]"""
    t = x.shape[0]
    pos = jnp.arange(t)
    q = (x @ p["wq"]).reshape(t, cfg.n_heads, cfg.head_dim)
    k = (x @ p["wk"]).reshape(t, cfg.n_kv, cfg.head_dim)
    v = (x @ p["wv"]).reshape(t, cfg.n_kv, cfg.head_dim)
    q, k = rope(q, pos, cfg.theta), rope(k, pos, cfg.theta)
    r = cfg.n_heads // cfg.n_kv
    k, v = jnp.repeat(k, r, axis=1), jnp.repeat(v, r, axis=1)
    s = jnp.einsum("ihd,jhd->hij", q, k) / jnp.sqrt(cfg.head_dim)
    s = jnp.where(window_mask(t, cfg.sliding_window), s, -jnp.inf)
    a = jax.nn.softmax(s, axis=-1)
    return jnp.einsum("hij,jhd->ihd", a, v).reshape(t, -1) @ p["wo"]


def rmsnorm(w, x):
    return w * x * jax.lax.rsqrt(jnp.mean(x * x, -1, keepdims=True) + 1e-5)


def ffn(p, x):
    return (jax.nn.silu(x @ p["w1"]) * (x @ p["w3"])) @ p["w2"]


def block(p, x, cfg):
    x = x + attention(p["attn"], rmsnorm(p["n1"], x), cfg)
    return x + ffn(p["ffn"], rmsnorm(p["n2"], x))


def init_block(key, cfg):
    k = jax.random.split(key, 7)
    w = lambda kk, i, o: jax.random.normal(kk, (i, o)) / jnp.sqrt(i)
    hd = cfg.head_dim
    return {"attn": {"wq": w(k[0], cfg.dim, cfg.n_heads * hd), "wk": w(k[1], cfg.dim, cfg.n_kv * hd),
                     "wv": w(k[2], cfg.dim, cfg.n_kv * hd), "wo": w(k[3], cfg.n_heads * hd, cfg.dim)},
            "ffn": {"w1": w(k[4], cfg.dim, cfg.hidden), "w2": w(k[5], cfg.hidden, cfg.dim),
                    "w3": w(k[6], cfg.dim, cfg.hidden)},
            "n1": jnp.ones(cfg.dim), "n2": jnp.ones(cfg.dim)}


if __name__ == "__main__":
    cfg = Cfg()
    p = init_block(jax.random.PRNGKey(0), cfg)
    batch = jax.random.normal(jax.random.PRNGKey(1), (2, 10, cfg.dim))
    print(jax.vmap(lambda x: block(p, x, cfg))(batch).shape)
