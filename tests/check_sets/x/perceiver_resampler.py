"""Perceiver resampler (Flamingo) in plain JAX: a NamedTuple of arrays per layer."""
from functools import partial
from typing import NamedTuple

import jax
import jax.numpy as jnp
from jax import Array, random


class Layer(NamedTuple):
    to_q: Array     # (dim, heads * dim_head)
    to_kv: Array    # (dim, 2 * heads * dim_head)
    to_out: Array   # (heads * dim_head, dim)
    ff1: Array
    ff2: Array


class Resampler(NamedTuple):
    latents: Array  # (n_latents, dim)
    layers: list


def init_resampler(key, dim: int = 32, n_latents: int = 4, heads: int = 4, dim_head: int = 8, depth: int = 2) -> Resampler:
    key, sub = random.split(key)
    lat = random.normal(sub, (n_latents, dim)) * 0.02
    inner = heads * dim_head
    layers = []
    for k in random.split(key, depth):
        k = random.split(k, 5)
        layers.append(Layer(
            random.normal(k[0], (dim, inner)) * dim ** -0.5,
            random.normal(k[1], (dim, 2 * inner)) * dim ** -0.5,
            random.normal(k[2], (inner, dim)) * inner ** -0.5,
            random.normal(k[3], (dim, 2 * dim)) * dim ** -0.5,
            random.normal(k[4], (2 * dim, dim)) * (2 * dim) ** -0.5))
    return Resampler(lat, layers)


def _norm(x):
    return (x - x.mean(-1, keepdims=True)) / jnp.sqrt(x.var(-1, keepdims=True) + 1e-5)


def _heads(x, h):
    b, n, _ = x.shape
    return x.reshape(b, n, h, -1).transpose(0, 2, 1, 3)


def _attend(p: Layer, x, latents, heads):
    x, latents = _norm(x), _norm(latents)
    # latents attend to the media and to themselves
    kv = jnp.concatenate([x, latents], axis=1) @ p.to_kv
    k, v = jnp.split(kv, 2, axis=-1)
    q, k, v = (_heads(a, heads) for a in (latents @ p.to_q, k, v))
    sim = (q * q.shape[-1] ** -0.5) @ k.swapaxes(-1, -2)
    sim = sim - jax.lax.stop_gradient(sim.max(axis=-1, keepdims=True))
    attn = jnp.exp(sim)
    attn = attn / attn.sum(axis=-1, keepdims=True)
    out = (attn @ v).transpose(0, 2, 1, 3)
    return out.reshape(out.shape[0], out.shape[1], -1) @ p.to_out


@partial(jax.jit, static_argnames="heads")
def resample(params: Resampler, x: Array, heads: int = 4) -> Array:
    """x: (batch, n_tokens, dim) -> (batch, n_latents, dim)"""
    lat = jnp.broadcast_to(params.latents, (x.shape[0],) + params.latents.shape)
    for p in params.layers:
        lat = lat + _attend(p, x, lat, heads)
        lat = lat + jax.nn.gelu(_norm(lat) @ p.ff1) @ p.ff2
    return _norm(lat)
