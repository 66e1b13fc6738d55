"""Action-chunk policy for a two-finger gripper: pure functions over a params dict.

Observation tokens (proprioception, wrist camera patches) come first, then the
action tokens.  Observation tokens see each other and never the actions;
an action token sees all observations and the actions up to and including itself
(prefix-LM mask).
"""
import functools
import jax
import jax.numpy as jnp
import numpy as np

ROPE_BASE = 1.0e4


def init_mixer(key, d, n_q, n_kv, hd):
    ks = jax.random.split(key, 5)
    g = lambda k, *s: jax.random.normal(k, s) * s[0] ** -0.5
    return {
        "q": g(ks[0], d, n_q, hd), "k": g(ks[1], d, n_kv, hd), "v": g(ks[2], d, n_kv, hd),
        "gate": g(ks[3], d, n_q, hd), "o": jax.random.normal(ks[4], (n_q, hd, d)) * (n_q * hd) ** -0.5,
        "q_scale": jnp.zeros(hd), "k_scale": jnp.zeros(hd),
    }


def _rms(x, scale):
    # gain is stored as an offset from one
    return x * jax.lax.rsqrt(jnp.mean(x * x, -1, keepdims=True) + 1e-6) * (1.0 + scale)


def _rope(x, pos):
    """x [b, n, h, hd], pos [b, n].  First half of the channels pairs with the second."""
    half = x.shape[-1] // 2
    inv = ROPE_BASE ** (-jnp.arange(half) / half)
    a = pos[..., None, None] * inv
    c, s = jnp.cos(a), jnp.sin(a)
    lo, hi = x[..., :half], x[..., half:]
    return jnp.concatenate([lo * c - hi * s, hi * c + lo * s], -1)


def prefix_mask(n_obs, n_act):
    i = np.arange(n_obs + n_act)
    return (i[None, :] <= i[:, None]) | (i[None, :] < n_obs)


@functools.partial(jax.jit, static_argnames="n_obs")
def mix_tokens(params, x, pos, valid, *, n_obs):
    """Attention with grouped kv heads and a sigmoid output gate.

    x      [b, n, d], the first n_obs tokens are observations
    pos    [b, n]     integer rope positions
    valid  [b, n]     False for a camera patch that was dropped
    Query head h reads kv head h // (n_q // n_kv).
    """
    n_q, hd = params["q"].shape[1:]
    n_kv = params["k"].shape[1]
    b, n, _ = x.shape
    q = _rope(_rms(jnp.einsum("bnd,dhe->bnhe", x, params["q"]), params["q_scale"]), pos)
    k = _rope(_rms(jnp.einsum("bnd,dhe->bnhe", x, params["k"]), params["k_scale"]), pos)
    v = jnp.einsum("bnd,dhe->bnhe", x, params["v"])

    q = q.reshape(b, n, n_kv, n_q // n_kv, hd)
    s = jnp.einsum("bqgre,bkge->bgrqk", q, k) / jnp.sqrt(hd)
    ok = jnp.asarray(prefix_mask(n_obs, n - n_obs))[None] & valid[:, None, :]
    s = jnp.where(ok[:, None, None], s, -jnp.inf)
    # a query with nothing to see gives zeros
    any_key = ok.any(-1)[:, None, None, :, None]
    w = jnp.where(any_key, jax.nn.softmax(jnp.where(any_key, s, 0.0), axis=-1), 0.0)
    y = jnp.einsum("bgrqk,bkge->bqgre", w, v).reshape(b, n, n_q, hd)

    y = y * jax.nn.sigmoid(jnp.einsum("bnd,dhe->bnhe", x, params["gate"]))
    return jnp.einsum("bnhe,hed->bnd", y, params["o"])


def denoise_step(params, obs, noisy_act, t, dt):
    """One Euler step of the flow; t in [0, 1] is added as a constant feature."""
    x = jnp.concatenate([obs, noisy_act + t], axis=1)
    b, n, _ = x.shape
    pos = jnp.broadcast_to(jnp.arange(n), (b, n))
    h = x
    for layer in params["layers"]:
        h = h + mix_tokens(layer, h, pos, jnp.ones((b, n), bool), n_obs=obs.shape[1])
    vel = h[:, obs.shape[1]:] @ params["head"]
    return noisy_act + dt * vel
