import jax
import jax.numpy as jnp


def empty(beams, room, heads, d):
    z = jnp.zeros((beams, room, heads, d))
    return {"k": z, "v": z, "n": 0}


def beam_step(par, cache, x, parent):
    """One step of the caption decoder for all hypotheses of a beam search.

    x [beams, D]    newest token of each hypothesis
    parent [beams]  hypothesis i is the continuation of the earlier hypothesis parent[i]; the stored
                    past of i is that of parent[i]
    cache           k, v [beams, room, heads, d] of which the first n positions are filled (n < room)
    Returns y [beams, D] and the new cache. Each hypothesis attends to its own past and itself.
    """
    beams, room, heads, d = cache["k"].shape
    n = cache["n"]
    q, k, v = (jnp.einsum("bD,Dhd->bhd", x, par[c]) for c in ("q", "k", "v"))
    past_k = jnp.take(cache["k"], parent, axis=0)
    past_v = cache["v"]
    keys = past_k.at[:, n].set(k)
    values = past_v.at[:, n].set(v)
    s = jnp.einsum("bhd,bthd->bht", q, keys) / d ** 0.5
    s = jnp.where(jnp.arange(room) <= n, s, -jnp.inf)
    p = jax.nn.softmax(s, axis=-1)
    y = jnp.einsum("bht,bthd->bhd", p, values)
    y = jnp.einsum("bhd,hdD->bD", y, par["o"])
    return y, {"k": keys, "v": values, "n": n + 1}
