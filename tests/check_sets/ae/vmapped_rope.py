import jax.numpy as jnp
from jax import vmap


def angles(n, d, base=1e4):
    inv = base ** (-jnp.arange(d // 2) * 2.0 / d)
    return jnp.arange(n)[:, None] * inv[None]


def turn(x, th):
    """x (n, d), first half paired with second half"""
    x1, x2 = jnp.split(x, 2, axis=-1)
    c, s = jnp.cos(th), jnp.sin(th)
    return jnp.concatenate([x1 * c - x2 * s, x2 * c + x1 * s], -1)


def one_head(q, k, v, keep):
    """q, k, v (n, d), keep (n,): causal attention of one head of one sample."""
    n, d = q.shape
    th = angles(n, d)
    q, k = turn(q, th), turn(k, th)

    def one_row(i, qi):
        s = k @ qi / jnp.sqrt(d)
        ok = (jnp.arange(n) <= i) & keep
        # left padding: rows before the first token come out as zero
        s = jnp.where(ok, s, -1e30)
        w = jnp.where(ok, jnp.exp(s - s.max()), 0.0)
        return w @ v / jnp.maximum(w.sum(), 1e-20)

    return vmap(one_row)(jnp.arange(n), q)


def multi_head(params, x, keep):
    """x (B, n, D), keep (B, n) bool"""
    q, k, v = (jnp.einsum("bnd,hde->bhne", x, params[c]) for c in ("q", "k", "v"))
    y = vmap(vmap(one_head, (0, 0, 0, None)), (0, 0, 0, 0))(q, k, v, keep)
    return jnp.einsum("bhne,hed->bnd", y, params["o"])
