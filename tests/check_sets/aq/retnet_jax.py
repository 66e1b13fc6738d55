"""Multi-scale retention: recurrent form for serving the load forecaster (JAX)."""
import jax
import jax.numpy as jnp


def gammas(heads):
    return 1.0 - 2.0 ** (-5.0 - jnp.arange(heads))


def init(key, width, heads):
    ks = jax.random.split(key, 5)
    f = lambda k: jax.random.normal(k, (width, width)) * width ** -0.5
    return {"q": f(ks[0]), "k": f(ks[1]), "v": f(ks[2]), "g": f(ks[3]), "o": f(ks[4])}


def split(x, heads):
    return x.reshape(*x.shape[:-1], heads, x.shape[-1] // heads)


def group_norm(y, eps=1e-6):
    """per head, no affine part"""
    m = y.mean(-1, keepdims=True)
    return (y - m) / jnp.sqrt(y.var(-1, keepdims=True) + eps)


def empty_state(batch, heads, d):
    return jnp.zeros((batch, heads, d, d))


def retention_scan(params, x, state, heads):
    """x [B, L, W] and the state [B, H, d, d] left by the chunk before.

    Computes what the parallel form gives, o_n = sum_{m <= n} gamma^(n-m) (q_n . k_m) v_m
    (k carries the 1/sqrt(d)): newest token undamped, token before it times gamma, and so on.
    Returns the raw heads [B, L, H, d] and the new state.
    """
    d = x.shape[-1] // heads
    q = split(x @ params["q"], heads)
    k = split(x @ params["k"], heads) * d ** -0.5
    v = split(x @ params["v"], heads)
    g = gammas(heads)[None, :, None, None]

    def tick(S, qkv):
        qn, kn, vn = qkv
        S = g * (S + kn[..., :, None] * vn[..., None, :])
        return S, jnp.einsum("bhd,bhde->bhe", qn, S)

    time_first = tuple(jnp.moveaxis(t, 1, 0) for t in (q, k, v))
    state, out = jax.lax.scan(tick, state, time_first)
    return jnp.moveaxis(out, 0, 1), state


def msr(params, x, state, heads):
    y, state = retention_scan(params, x, state, heads)
    y = group_norm(y).reshape(x.shape)
    return (jax.nn.swish(x @ params["g"]) * y) @ params["o"], state


def quantile_loss(pred, y, qs):
    e = y[..., None] - pred
    return jnp.maximum(qs * e, (qs - 1) * e).mean()
