"""LiDAR sweep -> fixed number of latents -> class logits (Perceiver style), pure JAX.

Sweeps have different numbers of returns, so every sweep comes padded to `n_max` points
with a boolean `hit` array (True: a real return).  A sweep may also be totally empty when
the sensor was blocked; attention then adds nothing to the latents.
"""
from dataclasses import dataclass

import jax
import jax.numpy as jnp
import numpy as np


@jax.tree_util.register_dataclass
@dataclass
class CrossParams:
    q: jax.Array      # [heads, latent, dh]
    k: jax.Array      # [heads, feat, dh]
    v: jax.Array      # [heads, feat, dh]
    out: jax.Array    # [heads, dh, latent]
    gain_l: jax.Array
    gain_p: jax.Array


@dataclass(frozen=True)
class Cfg:
    n_latents: int = 16
    latent: int = 32
    feat: int = 27
    heads: int = 4
    dh: int = 8
    rounds: int = 2
    classes: int = 10
    bands: int = 4


def fourier_features(xyz, bands):
    """xyz in [-1, 1]; 3 raw coordinates, then sines and cosines of 1, 2, 4, ... half turns."""
    f = np.pi * 2.0 ** np.arange(bands)
    a = (xyz[..., None] * f).reshape(*xyz.shape[:-1], -1)
    return jnp.concatenate([xyz, jnp.sin(a), jnp.cos(a)], -1)


def layer_norm(x, gain):
    x = x - x.mean(-1, keepdims=True)
    return x * jax.lax.rsqrt((x * x).mean(-1, keepdims=True) + 1e-5) * gain


def one_head(lat, pts, hit, wq, wk, wv):
    """lat [L, latent], pts [N, feat], hit [N] -> [L, dh]"""
    q, k, v = lat @ wq, pts @ wk, pts @ wv
    s = (q / jnp.sqrt(q.shape[-1])) @ k.T
    s = jnp.where(hit[None, :], s, -jnp.inf)
    top = jnp.max(s, axis=1, keepdims=True)
    top = jax.lax.stop_gradient(jnp.where(jnp.isfinite(top), top, 0.0))
    e = jnp.where(hit[None, :], jnp.exp(s - top), 0.0)
    z = e.sum(axis=1, keepdims=True)
    return (e @ v) / jnp.where(z > 0, z, 1.0)


def cross_attend(p: CrossParams, lat, pts, hit):
    """One sweep.  The latents ask, the points answer; residual on the latents."""
    l, x = layer_norm(lat, p.gain_l), layer_norm(pts, p.gain_p)
    heads = jax.vmap(one_head, in_axes=(None, None, None, 0, 0, 0))(l, x, hit, p.q, p.k, p.v)
    return lat + jnp.einsum("hld,hdc->lc", heads, p.out)


def init_cross(key, c: Cfg):
    k = jax.random.split(key, 4)
    n = jax.random.normal
    return CrossParams(
        q=n(k[0], (c.heads, c.latent, c.dh)) * c.latent ** -0.5,
        k=n(k[1], (c.heads, c.feat, c.dh)) * c.feat ** -0.5,
        v=n(k[2], (c.heads, c.feat, c.dh)) * c.feat ** -0.5,
        out=n(k[3], (c.heads, c.dh, c.latent)) * (c.heads * c.dh) ** -0.5,
        gain_l=jnp.ones(c.latent), gain_p=jnp.ones(c.feat))


def init(key, c: Cfg):
    assert c.feat == 3 + 6 * c.bands
    ks = jax.random.split(key, c.rounds + 3)
    n = jax.random.normal
    return {
        "latents": 0.02 * n(ks[0], (c.n_latents, c.latent)),
        "cross": [init_cross(k, c) for k in ks[3:]],
        "mlp": (n(ks[1], (c.latent, 2 * c.latent)) * c.latent ** -0.5,
                n(ks[2], (2 * c.latent, c.latent)) * (2 * c.latent) ** -0.5),
        "head": jnp.zeros((c.latent, c.classes)),
    }


def classify(params, xyz, hit, c: Cfg):
    """xyz [B, n_max, 3], hit [B, n_max] -> [B, classes]"""
    def sweep(xyz, hit):
        pts = fourier_features(xyz, c.bands)
        lat = params["latents"]
        w1, w2 = params["mlp"]
        for p in params["cross"]:
            lat = cross_attend(p, lat, pts, hit)
            lat = lat + jax.nn.gelu(lat @ w1) @ w2
        return lat.mean(0) @ params["head"]
    return jax.vmap(sweep)(xyz, hit)


if __name__ == "__main__":
    cfg = Cfg()
    params = init(jax.random.PRNGKey(0), cfg)
    xyz = jax.random.uniform(jax.random.PRNGKey(1), (3, 50, 3), minval=-1, maxval=1)
    hit = jnp.arange(50)[None] < jnp.array([50, 20, 0])[:, None]
    print(classify(params, xyz, hit, cfg).shape)
