"""Decoder-only LM over MIDI event tokens (NOTE_ON / NOTE_OFF / TIME_SHIFT / VELOCITY).

Pure JAX, parameters are nested dicts so that checkpoints are a flat npz file.
The key/value cache has a fixed length (jit friendly); `pos` counts how many
events are already inside.
"""
import functools

import jax
import jax.numpy as jnp

NOTE_ON, NOTE_OFF, TIME_SHIFT, VELOCITY = 0, 128, 256, 356
VOCAB = 388


def rms(x, g):
    return x * jax.lax.rsqrt(jnp.mean(x * x, -1, keepdims=True) + 1e-6) * g


def rotary(x, positions, base=10000.0):
    """x [B, T, H, D]; neighbouring channels (0,1), (2,3), ... form the pairs."""
    d = x.shape[-1]
    freq = base ** (-jnp.arange(0, d, 2) / d)
    ang = positions[:, None, None] * freq                 # [T, 1, D/2]
    c, s = jnp.cos(ang), jnp.sin(ang)
    even, odd = x[..., ::2], x[..., 1::2]
    return jnp.stack([even * c - odd * s, even * s + odd * c], axis=-1).reshape(x.shape)


def empty_cache(cfg, batch):
    shape = (cfg["layers"], batch, cfg["max_len"], cfg["heads"], cfg["dim"] // cfg["heads"])
    return {"k": jnp.zeros(shape), "v": jnp.zeros(shape), "pos": jnp.array(0, jnp.int32)}


def attend(p, x, k_mem, v_mem, pos, heads):
    """Causal attention of T new events over everything heard so far.

    k_mem, v_mem: [B, max_len, H, D], first `pos` rows valid. Gives the output and
    the memories with the new rows written in.
    """
    B, T, C = x.shape
    qkv = jnp.einsum("btc,cshd->sbthd", x, p["wqkv"].reshape(C, 3, heads, C // heads))
    here = pos + jnp.arange(T)
    q = rotary(qkv[0], here)
    k = rotary(qkv[1], here)
    k_mem = jax.lax.dynamic_update_slice(k_mem, k, (0, pos, 0, 0))
    v_mem = jax.lax.dynamic_update_slice(v_mem, qkv[2], (0, pos, 0, 0))

    logits = jnp.einsum("bthd,bshd->bhts", q, k_mem) * (C // heads) ** -0.5
    heard = jnp.arange(k_mem.shape[1])[None, :] <= here[:, None]
    logits = jnp.where(heard, logits, jnp.finfo(logits.dtype).min)
    w = jax.nn.softmax(logits, axis=-1)
    y = jnp.einsum("bhts,bshd->bthd", w, v_mem).reshape(B, T, C)
    return y @ p["wo"], k_mem, v_mem


def apply(params, tokens, cache, cfg):
    """tokens [B, T] -> (logits [B, T, VOCAB], cache)."""
    x = params["embed"][tokens]
    ks, vs = [], []
    for i, p in enumerate(params["blocks"]):
        y, k, v = attend(p, rms(x, p["g1"]), cache["k"][i], cache["v"][i], cache["pos"], cfg["heads"])
        x = x + y
        h = rms(x, p["g2"])
        x = x + (jax.nn.silu(h @ p["w_gate"]) * (h @ p["w_up"])) @ p["w_down"]
        ks.append(k)
        vs.append(v)
    cache = {"k": jnp.stack(ks), "v": jnp.stack(vs), "pos": cache["pos"] + tokens.shape[1]}
    return rms(x, params["g_out"]) @ params["embed"].T, cache


def init(key, cfg):
    c = cfg["dim"]
    keys = jax.random.split(key, 1 + 6 * cfg["layers"])
    n = lambda k, *s: jax.random.normal(k, s) * s[0] ** -0.5
    blocks = []
    for i in range(cfg["layers"]):
        a = keys[1 + 6 * i:7 + 6 * i]
        blocks.append({"wqkv": n(a[0], c, 3 * c), "wo": n(a[1], c, c), "w_gate": n(a[2], c, 2 * c),
                       "w_up": n(a[3], c, 2 * c), "w_down": n(a[4], 2 * c, c),
                       "g1": jnp.ones(c), "g2": jnp.ones(c)})
    return {"embed": jax.random.normal(keys[0], (VOCAB, c)) * 0.02, "blocks": blocks, "g_out": jnp.ones(c)}


def loss(params, tokens, cfg):
    cache = empty_cache(cfg, tokens.shape[0])
    logits, _ = apply(params, tokens[:, :-1], cache, cfg)
    logp = jax.nn.log_softmax(logits)
    return -jnp.take_along_axis(logp, tokens[:, 1:, None], -1).mean()


def improvise(params, prompt, steps, cfg, key, temperature=1.0):
    step = jax.jit(functools.partial(apply, cfg=cfg))
    logits, cache = step(params, prompt, empty_cache(cfg, prompt.shape[0]))
    out = [prompt]
    for k in jax.random.split(key, steps):
        nxt = jax.random.categorical(k, logits[:, -1] / temperature)[:, None]
        out.append(nxt)
        logits, cache = step(params, nxt, cache)
    return jnp.concatenate(out, axis=1)


if __name__ == "__main__":
    cfg = {"dim": 32, "heads": 4, "layers": 2, "max_len": 64}
    params = init(jax.random.PRNGKey(0), cfg)
    start = jnp.array([[NOTE_ON + 60, TIME_SHIFT + 20, NOTE_OFF + 60]])
    print(improvise(params, start, 10, cfg, jax.random.PRNGKey(1)))
