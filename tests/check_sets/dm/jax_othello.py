"""Othello in JAX: a little transformer block over the 64 discs, with "sinks".

x      : (64, D) float, one board (use jax.vmap for more)
params : wq, wk, wv (D, H, d), wo (H, d, D), sink (H,)
stable : (64,) bool, True = this square may be looked at.  May be all False.

Every head has one extra learned logit, sink[h], that competes in the softmax but has no
value: "look at nothing".  So

    w[h, i, j] = exp(s[h, i, j]) / (exp(sink[h]) + sum_{j' allowed} exp(s[h, i, j']))
    s[h, i, j] = q_i . k_j / sqrt(d)

The weights of a row therefore sum to less than one, on purpose; with no square
allowed the output of the layer is zero.
Returns (64, D).
"""
import jax
import jax.numpy as jnp


def init(key, D=32, H=4, d=8):
    ks = jax.random.split(key, 5)
    g = lambda k, *shape: jax.random.normal(k, shape) / jnp.sqrt(shape[0])
    return {
        "wq": g(ks[0], D, H, d),
        "wk": g(ks[1], D, H, d),
        "wv": g(ks[2], D, H, d),
        "wo": jax.random.normal(ks[3], (H, d, D)) / jnp.sqrt(H * d),
        "sink": jax.random.normal(ks[4], (H,)),
    }


def sink_attention(params, x, stable):
    q = jnp.einsum("nD,Dhd->hnd", x, params["wq"])
    k = jnp.einsum("nD,Dhd->hnd", x, params["wk"])
    v = jnp.einsum("nD,Dhd->hnd", x, params["wv"])
    s = jnp.einsum("hid,hjd->hij", q, k) / jnp.sqrt(q.shape[-1])
    s = jnp.where(stable[None, None, :], s, -jnp.inf)
    sink = jnp.broadcast_to(params["sink"][:, None, None], s.shape[:2] + (1,))
    w = jax.nn.softmax(jnp.concatenate([s, sink], axis=-1), axis=-1)[..., :-1]
    return jnp.einsum("hij,hjd,hdD->iD", w, v, params["wo"])


batched = jax.jit(jax.vmap(sink_attention, in_axes=(None, 0, 0)))
