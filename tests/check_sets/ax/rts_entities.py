"""Entity encoder and unit pointer of the RTS agent, plain functions over params dicts.

entities: [E, F] features of one player's view (vmapped over the batch outside)
alive:    [E] bool, True for slots that hold a unit
"""
from functools import partial
from typing import Any, Dict

import jax
import jax.numpy as jnp

Params = Dict[str, Any]


def dense_init(rng, n_in, n_out, bias=True):
    p = {"w": jax.random.truncated_normal(rng, -2, 2, (n_in, n_out)) / jnp.sqrt(n_in)}
    if bias:
        p["b"] = jnp.zeros((n_out,))
    return p


def dense(p, x):
    y = x @ p["w"]
    return y + p["b"] if "b" in p else y


def norm(p, x):
    x = x - x.mean(-1, keepdims=True)
    return x * jax.lax.rsqrt(jnp.mean(x * x, -1, keepdims=True) + 1e-5) * p["g"] + p["o"]


def unit_attention_init(rng, width, heads, head_dim):
    r = jax.random.split(rng, 4)
    return {"q": dense_init(r[0], width, heads * head_dim, False),
            "k": dense_init(r[1], width, heads * head_dim, False),
            "v": dense_init(r[2], width, heads * head_dim),
            "out": dense_init(r[3], heads * head_dim, width)}


def unit_attention(p: Params, x, alive, heads: int):
    """Units look at units that are alive; an empty board gives zeros before the out layer."""
    E = x.shape[0]
    q, k, v = (dense(p[n], x).reshape(E, heads, -1) for n in "qkv")
    logits = jnp.einsum("ihd,jhd->hij", q, k) / jnp.sqrt(q.shape[-1]).astype(x.dtype)
    ok = alive[None, None, :]
    m = jax.lax.stop_gradient(jnp.max(jnp.where(ok, logits, -1e30), axis=-1, keepdims=True))
    w = jnp.where(ok, jnp.exp(jnp.where(ok, logits - m, 0.0)), 0.0)
    z = w.sum(-1, keepdims=True)
    w = w / jnp.where(z > 0, z, 1.0)
    y = jnp.einsum("hij,jhd->ihd", w, v).reshape(E, -1)
    return dense(p["out"], y)


def encoder_init(rng, feat, width=64, heads=4, head_dim=16, layers=3):
    rng, r = jax.random.split(rng)
    params = {"embed": dense_init(r, feat, width), "layers": []}
    for _ in range(layers):
        rng, a, b, c = jax.random.split(rng, 4)
        ln = lambda: {"g": jnp.ones(width), "o": jnp.zeros(width)}
        params["layers"].append({"att": unit_attention_init(a, width, heads, head_dim), "ln1": ln(),
                                 "up": dense_init(b, width, 4 * width), "down": dense_init(c, 4 * width, width),
                                 "ln2": ln()})
    return params


@partial(jax.jit, static_argnames="heads")
def encode(params: Params, entities, alive, heads: int = 4):
    """-> per unit [E, W], whole board [W] (mean over the living)"""
    x = dense(params["embed"], entities)
    for lp in params["layers"]:
        x = norm(lp["ln1"], x + unit_attention(lp["att"], x, alive, heads))
        x = norm(lp["ln2"], x + dense(lp["down"], jax.nn.relu(dense(lp["up"], x))))
    x = jnp.where(alive[:, None], x, 0.0)
    return x, x.sum(0) / jnp.maximum(alive.sum(), 1)


def pointer_logits(params: Params, core, units, selectable):
    """Target unit head: one logit per slot, -1e9 where the slot cannot be clicked."""
    q = dense(params["q"], core)
    k = dense(params["k"], units)
    return jnp.where(selectable, k @ q / jnp.sqrt(q.shape[-1]), -1e9)


batch_encode = jax.vmap(encode, in_axes=(None, 0, 0))
