"""Slot Attention (Locatello et al., 2020) as JAX functions.

Slots compete for the inputs: the softmax runs over the slots, and the weights
are then normalised over the inputs to give a weighted mean for every slot.
"""
import jax
import jax.numpy as jnp


def init_params(key, dim_in=12, dim=16, hidden=24):
    k = iter(jax.random.split(key, 12))
    n = lambda *s: jax.random.normal(next(k), s) * s[0] ** -0.5
    return {
        "mu": jax.random.normal(next(k), (dim,)), "log_sigma": jnp.zeros(dim),
        "wq": n(dim, dim), "wk": n(dim_in, dim), "wv": n(dim_in, dim),
        "gru_x": n(dim, 3 * dim), "gru_h": n(dim, 3 * dim),
        "mlp1": n(dim, hidden), "mlp2": n(hidden, dim),
    }


def norm(x, eps=1e-6):
    return (x - x.mean(-1, keepdims=True)) * jax.lax.rsqrt(x.var(-1, keepdims=True) + eps)


def gru(params, x, h):
    xr, xz, xn = jnp.split(x @ params["gru_x"], 3, -1)
    hr, hz, hn = jnp.split(h @ params["gru_h"], 3, -1)
    r, z = jax.nn.sigmoid(xr + hr), jax.nn.sigmoid(xz + hz)
    return (1 - z) * jnp.tanh(xn + r * hn) + z * h


def slot_attention(params, inputs, slots, iters=3, eps=1e-8):
    """inputs [B, N, dim_in], slots [B, K, dim] -> slots [B, K, dim], masks [B, K, N]"""
    x = norm(inputs)
    k, v = x @ params["wk"], x @ params["wv"]
    scale = k.shape[-1] ** -0.5
    for _ in range(iters):
        q = norm(slots) @ params["wq"]
        logits = scale * jnp.einsum("bkd,bnd->bkn", q, k)
        masks = jax.nn.softmax(logits, axis=1)
        w = masks + eps
        w = w / w.sum(axis=-1, keepdims=True)
        updates = jnp.einsum("bkn,bnd->bkd", w, v)
        slots = gru(params, updates, slots)
        slots = slots + jax.nn.relu(norm(slots) @ params["mlp1"]) @ params["mlp2"]
    return slots, masks


def sample_slots(params, key, batch, num_slots):
    noise = jax.random.normal(key, (batch, num_slots, params["mu"].shape[0]))
    return params["mu"] + jnp.exp(params["log_sigma"]) * noise
