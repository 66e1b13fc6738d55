import math

import jax
import jax.numpy as jnp
import numpy as np

CFG = {"model": 32, "heads": 4, "key": 8, "layers": 2, "vocab": 64, "cap": 5.0, "out_cap": 30.0}


def rms_norm(x, scale):
    return x * jax.lax.rsqrt(jnp.mean(jnp.square(x), -1, keepdims=True) + 1e-5) * scale


def rotary(x, offset=0):
    dim, n = x.shape[-1], x.shape[1]
    inv = np.float32(10000.0) ** (-np.arange(0, dim, 2) / dim)
    ph = jnp.tile(jnp.einsum("t,f->tf", jnp.arange(n) + offset, inv), 2)[None, :, None]
    x1, x2 = jnp.split(x, 2, -1)
    return x * jnp.cos(ph) + jnp.concatenate((-x2, x1), -1) * jnp.sin(ph)


def causal_bias(n):
    return jnp.where(jnp.tril(jnp.ones((n, n), bool)), 0.0, -1e30)[None, None]


def capped_attention(p, x, bias, cap):
    """x [b, t, model]; bias [b or 1, 1, t, t] with 0 to keep and -1e30 to drop; cap: |logit| stays below it"""
    q = rotary(jnp.einsum("btm,mhk->bthk", x, p["q"]))
    k = rotary(jnp.einsum("btm,mhk->bthk", x, p["k"]))
    v = jnp.einsum("btm,mhk->bthk", x, p["v"])
    logits = jnp.einsum("bthk,bThk->bhtT", q, k).astype(jnp.float32) / math.sqrt(q.shape[-1])
    logits = logits + bias
    logits = cap * jnp.tanh(logits / cap)
    w = jax.nn.softmax(logits).astype(x.dtype)
    return jnp.einsum("bhtT,bThk,hkm->btm", w, v, p["o"])


def init_fn(seed, cfg=CFG):
    rng = np.random.default_rng(seed)
    m, h, k = cfg["model"], cfg["heads"], cfg["key"]
    w = lambda *s: jnp.asarray(rng.normal(size=s) / np.sqrt(m), jnp.float32)
    layer = lambda: {
        "attn": {"q": w(m, h, k), "k": w(m, h, k), "v": w(m, h, k), "o": w(h, k, m)},
        "ff": {"gate": w(m, 2 * m), "up": w(m, 2 * m), "down": w(2 * m, m)},
        "n1": jnp.ones(m), "n2": jnp.ones(m),
    }
    return {"embed": w(cfg["vocab"], m), "layers": [layer() for _ in range(cfg["layers"])], "n": jnp.ones(m)}


def forward_fn(params, tokens, pad_id=-1, cfg=CFG):
    x = params["embed"][tokens] * math.sqrt(cfg["model"])
    bias = causal_bias(tokens.shape[1]) + jnp.where(tokens == pad_id, -1e30, 0.0)[:, None, None, :]
    for l in params["layers"]:
        x = x + capped_attention(l["attn"], rms_norm(x, l["n1"]), bias, cfg["cap"])
        h = rms_norm(x, l["n2"])
        x = x + (jax.nn.gelu(h @ l["ff"]["gate"]) * (h @ l["ff"]["up"])) @ l["ff"]["down"]
    logits = rms_norm(x, params["n"]) @ params["embed"].T
    return cfg["out_cap"] * jnp.tanh(logits / cfg["out_cap"])


if __name__ == "__main__":
    tokens = np.random.default_rng(0).integers(0, 64, (2, 10))
    print(forward_fn(init_fn(0), tokens).std())
