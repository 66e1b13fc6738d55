"""Local causal mixing in JAX, one sequence at a time with vmap.

a: (T, H, D) what each step asks; b: (T, H, D) what each step answers to;
c: (T, H, E) what each step carries.  Step t may look at the w newest steps
t-w+1 ... t (itself counted), never at later ones.
"""
from functools import partial

import jax
import jax.numpy as jnp


def _one(a, b, c, w):
    """a (T, D), b (T, D), c (T, E) for one head."""
    T, D = a.shape
    bp = jnp.concatenate([jnp.zeros((w - 1, D), b.dtype), b])
    cp = jnp.concatenate([jnp.zeros((w - 1, c.shape[1]), c.dtype), c])

    def step(t):
        bb = jax.lax.dynamic_slice_in_dim(bp, t, w)       # steps t-w+1 .. t
        cc = jax.lax.dynamic_slice_in_dim(cp, t, w)
        s = bb @ a[t] / jnp.sqrt(D)
        real = jnp.arange(w) + t - (w - 1) >= 0           # before the start: nothing there
        s = jnp.where(real, s, -jnp.inf)
        e = jnp.exp(s - jnp.max(s))
        return (e / e.sum()) @ cc

    return jax.vmap(step)(jnp.arange(T))


@partial(jax.jit, static_argnames="w")
def local_mix(a, b, c, w=4):
    """a, b (B, T, H, D), c (B, T, H, E) -> (B, T, H, E)"""
    heads = jax.vmap(partial(_one, w=w), in_axes=1, out_axes=1)
    return jax.vmap(heads)(a, b, c)
