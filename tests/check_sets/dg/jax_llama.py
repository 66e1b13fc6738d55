import jax
import jax.numpy as jnp


def make_weights(key, dim=32, n_q=4, n_kv=2, d=8):
    k = jax.random.split(key, 4)
    w = lambda kk, *s: jax.random.normal(kk, s) * s[0] ** -0.5
    return dict(
        q=w(k[0], dim, n_q, d),
        k=w(k[1], dim, n_kv, d),
        v=w(k[2], dim, n_kv, d),
        o=w(k[3], n_q * d, dim),
    )


def rms(x, eps=1e-6):
    return x * jax.lax.rsqrt(jnp.mean(x * x, axis=-1, keepdims=True) + eps)


def llama_mix(w, x):
    """Llama-2 style: causal, neighbouring query heads form a group with one kv head.

    With n_q = 4 and n_kv = 2 the heads 0, 1 read kv head 0 and the heads 2, 3 kv head 1.
    x (B, T, dim) -> (B, T, dim)
    """
    h = rms(x)
    q = jnp.einsum("btc,chd->bhtd", h, w["q"])
    k = jnp.einsum("btc,cgd->bgtd", h, w["k"])
    v = jnp.einsum("btc,cgd->bgtd", h, w["v"])
    share = q.shape[1] // k.shape[1]
    spread = lambda t: jnp.tile(t, (1, share, 1, 1))
    s = jnp.einsum("bhtd,bhsd->bhts", q, spread(k)) / jnp.sqrt(q.shape[-1])
    T = x.shape[1]
    s = jnp.where(jnp.tril(jnp.ones((T, T), bool)), s, -jnp.inf)
    y = jnp.einsum("bhts,bhsd->bthd", jax.nn.softmax(s, axis=-1), spread(v))
    return x + y.reshape(*x.shape[:2], -1) @ w["o"]
