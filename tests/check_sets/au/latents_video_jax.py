"""Perceiver-style video tagger in JAX: a few latents read many frame tokens."""
import functools

import jax
import jax.numpy as jnp


def linear(key, i, o):
    return jax.random.normal(key, (i, o)) / jnp.sqrt(i)


def norm(x):
    m = x.mean(-1, keepdims=True)
    return (x - m) / jnp.sqrt(x.var(-1, keepdims=True) + 1e-5)


def tubelets(video, t=2, p=8):
    """[B, T, H, W, C] -> [B, n, t*p*p*C]"""
    B, T, H, W, C = video.shape
    x = video.reshape(B, T // t, t, H // p, p, W // p, p, C)
    x = x.transpose(0, 1, 3, 5, 2, 4, 6, 7)
    return x.reshape(B, (T // t) * (H // p) * (W // p), -1)


def init_read(key, latent_dim, token_dim, heads, head_dim):
    a, b, c, d = jax.random.split(key, 4)
    inner = heads * head_dim
    return {"to_q": linear(a, latent_dim, inner), "to_k": linear(b, token_dim, inner),
            "to_v": linear(c, token_dim, inner), "to_out": linear(d, inner, latent_dim)}


def read(params, latents, tokens, present, heads):
    """softmax(q k^T / sqrt(head_dim)) v, with q from latents [B, m, D] and k, v from tokens [B, n, E].

    present: bool [B, n], True for tokens of frames that exist (every clip has one).
    """
    B, m, _ = latents.shape
    n = tokens.shape[1]
    q = (norm(latents) @ params["to_q"]).reshape(B, m, heads, -1)
    kv_in = norm(tokens)
    k = (kv_in @ params["to_k"]).reshape(B, n, heads, -1)
    v = (kv_in @ params["to_v"]).reshape(B, n, heads, -1)
    sim = jnp.einsum("bmhd,bnhd->bhmn", q, k) / jnp.sqrt(q.shape[-1])
    sim = jnp.where(present[:, None, None, :], sim, -1e30)
    att = jax.nn.softmax(sim, axis=-1)
    out = jnp.einsum("bhmn,bnhd->bmhd", att, k)
    return out.reshape(B, m, -1) @ params["to_out"]


def mlp(p, x):
    return jax.nn.gelu(norm(x) @ p["up"]) @ p["down"]


def init(key, token_dim, latent_dim=64, n_latents=8, heads=4, rounds=2, tags=20):
    ks = jax.random.split(key, 3 * rounds + 2)
    rs = []
    for i in range(rounds):
        rs.append({"read": init_read(ks[3 * i], latent_dim, token_dim, heads, latent_dim // heads),
                   "mlp": {"up": linear(ks[3 * i + 1], latent_dim, 4 * latent_dim),
                           "down": linear(ks[3 * i + 2], 4 * latent_dim, latent_dim)}})
    return {"latents": jax.random.normal(ks[-2], (n_latents, latent_dim)) * 0.02,
            "rounds": rs, "tag": linear(ks[-1], latent_dim, tags)}


@functools.partial(jax.jit, static_argnames=("heads", "t", "p"))
def tag(params, video, frames, heads=4, t=2, p=8):
    """frames [B]: number of real frames in each clip, the rest is zero padding."""
    x = tubelets(video, t, p)
    per = x.shape[1] // (video.shape[1] // t)
    present = (jnp.arange(x.shape[1]) // per)[None] * t < frames[:, None]
    z = jnp.broadcast_to(params["latents"], (video.shape[0],) + params["latents"].shape)
    for r in params["rounds"]:
        z = z + read(r["read"], z, x, present, heads)
        z = z + mlp(r["mlp"], z)
    return jax.nn.sigmoid(z.mean(1) @ params["tag"])
