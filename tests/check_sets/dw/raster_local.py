"""Causal local attention over pixels in raster order (image GPT toy, JAX).

local_raster_attention(q, k, v, reach)
    q, k, v : (batch, n_pixels, heads, dim)
    reach   : how many pixels each pixel looks at, the pixel itself INCLUDED.  reach=1 means
              that it sees only itself, reach=2 itself and the previous one, and so on.
Usual scaled dot-product softmax (logits over the square root of the head dimension).
Returns (batch, n_pixels, heads, dim).
"""
import jax
import jax.numpy as jnp


def raster_band(n, reach):
    i = jnp.arange(n)
    lag = i[:, None] - i[None, :]
    return (lag >= 0) & (lag <= reach)


def local_raster_attention(q, k, v, reach):
    batch, n, heads, dim = q.shape
    logits = jnp.einsum("bqhd,bkhd->bhqk", q, k)
    logits = logits / jnp.sqrt(logits.shape[-1])
    logits = jnp.where(raster_band(n, reach)[None, None], logits, -jnp.inf)
    p = jax.nn.softmax(logits, axis=-1)
    return jnp.einsum("bhqk,bkhd->bqhd", p, v)


def image_to_raster(img):
    """(batch, H, W, C) -> (batch, H*W, C)"""
    b, h, w, c = img.shape
    return img.reshape(b, h * w, c)
