"""Residue encoder for drug-target affinity (JAX, functional).

x      (B, L, D)   residue embeddings, proteins padded to L
mask   (B, L)      1 = residue, 0 = padding, >= 1 residue per protein
params {"q","k","v"}: (D, H, E); {"o"}: (H, E, D); {"gamma", "beta"}: (D,)

y = LayerNorm(x + MHA(x)): all residues read all residues of the same protein and
no padding.  What comes out at padded places is not used by anybody.
"""
import jax
import jax.numpy as jnp


def layer_norm(x, gamma, beta, eps=1e-5):
    mu = x.mean(-1, keepdims=True)
    var = jnp.mean((x - mu) ** 2, -1, keepdims=True)
    return gamma * (x - mu) * jax.lax.rsqrt(var + eps) + beta


def residue_layer(params, x, mask):
    q = jnp.einsum("bld,dhe->bhle", x, params["q"])
    k = jnp.einsum("bld,dhe->bhle", x, params["k"])
    v = jnp.einsum("bld,dhe->bhle", x, params["v"])
    e = q.shape[-1]
    logits = jnp.einsum("bhie,bhje->bhij", q, k) / jnp.sqrt(e).astype(x.dtype)
    keep = mask.astype(bool)[:, None, :, None]
    logits = jnp.where(keep, logits, jnp.finfo(x.dtype).min)
    probs = jax.nn.softmax(logits, axis=-1)
    ctx = jnp.einsum("bhij,bhje->bihe", probs, v)
    out = jnp.einsum("bihe,hed->bid", ctx, params["o"])
    return layer_norm(x + out, params["gamma"], params["beta"])


def affinity(params, x, mask, w):
    """mean over the residues, then a linear read-out; w (D,) -> (B,)"""
    y = residue_layer(params, x, mask)
    m = mask[..., None].astype(x.dtype)
    return (y * m).sum(1) / m.sum(1) @ w


def init(key, D, H, E):
    a, b, c, d = jax.random.split(key, 4)
    n = lambda k, *s: jax.random.normal(k, s) * D ** -0.5
    return {"q": n(a, D, H, E), "k": n(b, D, H, E), "v": n(c, D, H, E), "o": n(d, H, E, D),
            "gamma": jnp.ones(D), "beta": jnp.zeros(D)}
