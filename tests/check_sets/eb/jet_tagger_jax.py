"""Jet tagger: particles -> one vector -> class scores.  JAX, functional, one jet at a time + vmap.

Each jet is a set of particles with 4 features and a transverse momentum.  n_seed learned seeds
attend over the real particles; the logits get + log(pT) so harder particles start out heavier
(equivalently: softmax weights are multiplied by pT and renormalised).
"""
import jax
import jax.numpy as jnp


def init(key, n_seed=3, d=16, heads=2, n_cls=4):
    a, b, c, e, f = jax.random.split(key, 5)
    s = d ** -0.5
    return {
        "embed": jax.random.normal(a, (4, d)) * 0.5,
        "seed": jax.random.normal(b, (n_seed, heads, d // heads)),
        "k": jax.random.normal(c, (heads, d, d // heads)) * s,
        "v": jax.random.normal(e, (heads, d, d // heads)) * s,
        "cls": jax.random.normal(f, (n_seed * d, n_cls)) * 0.1,
    }


def one_jet(p, feat, pt):
    """feat [n, 4], pt [n]; pt == 0 marks a padding slot, at least one particle has pt > 0."""
    x = jax.nn.gelu(feat @ p["embed"])
    k = jnp.einsum("nd,hde->hne", x, p["k"])
    v = jnp.einsum("nd,hde->hne", x, p["v"])
    e = k.shape[-1]
    logit = jnp.einsum("she,hne->hsn", p["seed"], k) / jnp.sqrt(e)
    real = pt > 0
    bias = jnp.where(real, jnp.log(jnp.where(real, pt, 1.0)), -jnp.inf)
    w = jax.nn.softmax(logit + bias, axis=-1)
    pooled = jnp.einsum("hsn,hne->she", w, v)
    return pooled.reshape(-1) @ p["cls"]


def tagger(p, feat, pt):
    """feat [B, n, 4], pt [B, n] -> scores [B, n_cls]"""
    return jax.vmap(one_jet, in_axes=(None, 0, 0))(p, feat, pt)
