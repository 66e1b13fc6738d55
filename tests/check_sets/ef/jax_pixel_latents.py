"""Latent array that reads a galaxy cut-out (Perceiver-like), pure JAX.

read_image(params, image, mask=None)
    image (H, W, C)      one cut-out; use jax.vmap for batches
    mask  (H, W) bool    True = good pixel, at least one per cut-out
    params: dict
        latents (M, D), wq (D, h, d), wk (C + 2, h, d), wv (C + 2, h, d),
        wo (h, d, D)
    returns (M, D): latents plus multi-head attention over the good pixels with
    logits q.k / sqrt(d).
The two extra input channels are the pixel's row and column in [-1, 1].
"""
import jax
import jax.numpy as jnp


def with_coordinates(image):
    h, w, _ = image.shape
    rows = jnp.linspace(-1.0, 1.0, h)
    cols = jnp.linspace(-1.0, 1.0, w)
    grid = jnp.stack(jnp.meshgrid(rows, cols, indexing="ij"), axis=-1)
    return jnp.concatenate([image, grid], axis=-1).reshape(h * w, -1)


@jax.jit
def read_image(params, image, mask=None):
    pix = with_coordinates(image)
    lat = params["latents"]
    q = jnp.einsum("mD,Dhd->hmd", lat, params["wq"])
    k = jnp.einsum("nc,chd->hnd", pix, params["wk"])
    v = jnp.einsum("nc,chd->hnd", pix, params["wv"])
    scale = q.shape[-1] ** -0.5
    logits = jnp.einsum("hmd,hnd->hmn", q, k) / scale
    if mask is not None:
        logits = jnp.where(mask.reshape(1, 1, -1), logits, -jnp.inf)
    w = jax.nn.softmax(logits, axis=-1)
    read = jnp.einsum("hmn,hnd->hmd", w, v)
    return lat + jnp.einsum("hmd,hdD->mD", read, params["wo"])
