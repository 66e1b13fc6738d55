"""Social pooling for crowd navigation (JAX).

Each robot/pedestrian looks at its neighbours. `blocked[i, j]` is True when agent i
can NOT see agent j (too far, occluded, or an empty slot). An agent always sees
itself, also when it is an empty slot; so no row is ever without anything to read.
"""
from typing import Dict

import jax
import jax.numpy as jnp

Array = jax.Array


def visibility(pos: Array, alive: Array, radius: float) -> Array:
    """pos [A, 2], alive [A] -> blocked [A, A]."""
    dist = jnp.linalg.norm(pos[:, None] - pos[None, :], axis=-1)
    return (dist > radius) | ~alive[None, :]


def _one_head(q: Array, k: Array, v: Array, blocked: Array) -> Array:
    logits = jnp.dot(q, k.T) / jnp.sqrt(q.shape[-1])
    logits = jnp.where(blocked, -jnp.inf, logits)
    return jax.nn.softmax(logits, axis=-1) @ v


# heads share what is visible
_heads = jax.vmap(_one_head, in_axes=(0, 0, 0, None))


def social_pool(params: Dict[str, Array], feats: Array, blocked: Array) -> Array:
    """feats [A, F], blocked [A, A] -> [A, F].

    params: q, k, v [H, F, D]; out [H, D, F]; gate [F, F]
    """
    blocked = blocked & ~jnp.eye(feats.shape[0], dtype=bool)
    proj = lambda w: jnp.einsum("af,hfd->had", feats, w)
    heads = _heads(proj(params["q"]), proj(params["k"]), proj(params["v"]), blocked)
    mixed = jnp.einsum("had,hdf->af", heads, params["out"])
    return feats + jax.nn.sigmoid(feats @ params["gate"]) * mixed


def init_params(key: Array, f: int, h: int, d: int) -> Dict[str, Array]:
    k1, k2, k3, k4, k5 = jax.random.split(key, 5)
    n = lambda k, s: jax.random.normal(k, s) * s[-2] ** -0.5
    return {
        "q": n(k1, (h, f, d)),
        "k": n(k2, (h, f, d)),
        "v": n(k3, (h, f, d)),
        "out": n(k4, (h, d, f)),
        "gate": n(k5, (f, f)),
    }


batched_social_pool = jax.jit(jax.vmap(social_pool, in_axes=(None, 0, 0)))


def velocity_command(params, feats, pos, alive, radius=3.0, vmax=1.2):
    x = social_pool(params, feats, visibility(pos, alive, radius))
    return vmax * jnp.tanh(x[:, :2])
