"""Perceiver-style read: a small latent array attends to a long byte array (JAX)."""
import jax
import jax.numpy as jnp
import numpy as np


def init_params(seed, latent_dim, input_dim, heads, head_dim):
    rng = np.random.default_rng(seed)
    shapes = dict(q=(latent_dim, heads, head_dim), k=(input_dim, heads, head_dim),
                  v=(input_dim, heads, head_dim), o=(heads, head_dim, latent_dim))
    return {n: jnp.asarray(rng.normal(size=s) * s[0] ** -0.5, jnp.float32) for n, s in shapes.items()}


def _read_one(params, latents, inputs, valid):
    q = jnp.einsum("nc,chd->hnd", latents, params["q"])
    k = jnp.einsum("mc,chd->hmd", inputs, params["k"])
    v = jnp.einsum("mc,chd->hmd", inputs, params["v"])
    logits = jnp.einsum("hnd,hmd->hnm", q, k) / jnp.sqrt(q.shape[-1])
    w = jax.nn.softmax(logits, axis=-1, where=valid[None, None, :])
    return jnp.einsum("hnm,hmd,hdc->nc", w, v, params["o"])


@jax.jit
def perceiver_read(params, latents, inputs, valid):
    """latents (B, N, C), inputs (B, M, I), valid (B, M) bool, True = real input.

    At least one input of every sample is valid.  Returns (B, N, C).
    """
    return jax.vmap(_read_one, in_axes=(None, 0, 0, 0))(params, latents, inputs, valid)
