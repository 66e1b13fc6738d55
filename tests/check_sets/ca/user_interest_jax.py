"""User tower of the ads retrieval model (JAX).

The candidate creative attends over the user's recent events.  Users we have never seen
come with an all-False ``seen`` row; their interest vector is zero and the tower falls
back to the profile features alone.
"""
from typing import NamedTuple

import jax
import jax.numpy as jnp
from jax import Array


class Tower(NamedTuple):
    wq: Array      # [d_ad, h, d]
    wk: Array      # [d_ev, h, d]
    wv: Array      # [d_ev, h, d]
    w_out: Array   # [h * d + d_profile, d_emb]
    b_out: Array


def make_tower(rng: Array, d_ad=10, d_ev=12, heads=2, d=6, d_profile=5, d_emb=8) -> Tower:
    r = jax.random.split(rng, 4)
    init = jax.nn.initializers.lecun_normal()

    def heads_init(key, d_in):
        return init(key, (d_in, heads * d)).reshape(d_in, heads, d)

    return Tower(
        heads_init(r[0], d_ad),
        heads_init(r[1], d_ev),
        heads_init(r[2], d_ev),
        init(r[3], (heads * d + d_profile, d_emb)),
        jnp.zeros(d_emb),
    )


def interest(t: Tower, ad: Array, events: Array, seen: Array) -> Array:
    q = jnp.einsum("bc,chd->bhd", ad, t.wq)
    k = jnp.einsum("bnc,chd->bnhd", events, t.wk)
    v = jnp.einsum("bnc,chd->bnhd", events, t.wv)
    s = jnp.einsum("bhd,bnhd->bhn", q, k) / jnp.sqrt(q.shape[-1])
    s = jnp.where(seen[:, None, :], s, -jnp.inf)
    a = jax.nn.softmax(s, axis=-1)
    return jnp.einsum("bhn,bnhd->bhd", a, v).reshape(ad.shape[0], -1)


@jax.jit
def user_embedding(t: Tower, ad: Array, events: Array, seen: Array, profile: Array) -> Array:
    """ad [B, d_ad], events [B, N, d_ev], seen [B, N] bool, profile [B, d_profile] -> unit vectors"""
    z = jnp.concatenate([interest(t, ad, events, seen), profile], axis=-1)
    e = jnp.tanh(z @ t.w_out + t.b_out)
    return e / jnp.maximum(jnp.linalg.norm(e, axis=-1, keepdims=True), 1e-6)


if __name__ == "__main__":
    key = jax.random.PRNGKey(0)
    tower = make_tower(key)
    a, e, p = (jax.random.normal(key, s) for s in ((3, 10), (3, 4, 12), (3, 5)))
    seen = jnp.arange(4)[None] < jnp.array([4, 2, 3])[:, None]
    print(user_embedding(tower, a, e, seen, p))
