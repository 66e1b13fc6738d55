"""Resampling of a global weather field to a fixed set of latents (JAX).

A grid on equal angles has far too many cells near the poles, so every cell is
counted with its area: the attention weight of a cell is

    cos(lat) * exp(q.k / sqrt(d)) / (sum of the same over the valid cells)

Missing cells (NaN in any channel) are left out.  The latents are learned and are
the same for all samples.
"""
import functools

import jax
import jax.numpy as jnp


def init(key, channels, width=16, heads=2, latents=5):
    ks = jax.random.split(key, 5)
    dense = lambda k, a, b: jax.random.normal(k, (a, b)) * a ** -0.5
    return {
        "latent": jax.random.normal(ks[0], (latents, heads, width // heads)),
        "embed": dense(ks[1], channels + 3, width),
        "key": dense(ks[2], width, width).reshape(width, heads, width // heads),
        "value": dense(ks[3], width, width).reshape(width, heads, width // heads),
        "out": dense(ks[4], width, width).reshape(heads, width // heads, width),
    }


def _unit_vectors(lat, lon):
    a, b = jnp.meshgrid(jnp.deg2rad(lat), jnp.deg2rad(lon), indexing="ij")
    return jnp.stack([jnp.cos(a) * jnp.cos(b), jnp.cos(a) * jnp.sin(b), jnp.sin(a)], -1)


def _resample_one(params, field, lat, lon):
    n_lat, n_lon, _ = field.shape
    valid = jnp.all(jnp.isfinite(field), axis=-1)
    clean = jnp.where(valid[..., None], field, 0.0)
    x = jnp.concatenate([clean, _unit_vectors(lat, lon)], -1) @ params["embed"]
    x = jax.nn.gelu(x).reshape(n_lat * n_lon, -1)
    k = jnp.einsum("nc,chd->nhd", x, params["key"])
    v = jnp.einsum("nc,chd->nhd", x, params["value"])
    s = jnp.einsum("lhd,nhd->hln", params["latent"], k) / jnp.sqrt(k.shape[-1])
    area = jnp.broadcast_to(jnp.cos(jnp.deg2rad(lat))[:, None], (n_lat, n_lon))
    w = jax.nn.softmax(
        s, axis=-1, where=valid.reshape(1, 1, -1)
    ) * area.reshape(1, 1, -1)
    w = w / w.sum(-1, keepdims=True)
    y = jnp.einsum("hln,nhd->lhd", w, v)
    return jnp.einsum("lhd,hdc->lc", y, params["out"])


@functools.partial(jax.jit)
def resample(params, field, lat, lon):
    """field [B, n_lat, n_lon, channels]; lat, lon in degrees -> [B, latents, width]."""
    return jax.vmap(_resample_one, in_axes=(None, 0, None, None))(params, field, lat, lon)


if __name__ == "__main__":
    p = init(jax.random.PRNGKey(0), channels=3)
    f = jax.random.normal(jax.random.PRNGKey(1), (2, 6, 8, 3))
    print(resample(p, f, jnp.linspace(-75, 75, 6), jnp.arange(8) * 45.0).shape)
