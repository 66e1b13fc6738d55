# minijaxlm: a language model in one file. No classes, no libraries but jax.
#
#   params = init(cfg, key)
#   logits, cache = forward(cfg, params, tokens)            # prefill
#   logits, cache = forward(cfg, params, more, cache)       # go on, any chunk size

import jax, jax.numpy as jnp
from jax import random as jr

cfg = dict(V=97, D=32, H=4, L=2, T=128)


def init(cfg, key):
    D, V, L = cfg["D"], cfg["V"], cfg["L"]
    ks = iter(jr.split(key, 3 + 6 * L))
    mat = lambda i, o: jr.normal(next(ks), (i, o)) / i ** 0.5
    return dict(
        wte=mat(V, D), wpe=mat(cfg["T"], D) * 0.1,
        layers=[dict(qkv=mat(D, 3 * D), o=mat(D, D), up=mat(D, 4 * D), down=mat(4 * D, D)) for _ in range(L)],
    )


def norm(x, eps=1e-5):
    x = x - x.mean(-1, keepdims=True)
    return x * jax.lax.rsqrt((x * x).mean(-1, keepdims=True) + eps)


def attend(cfg, p, x, kv=None):
    """causal self attention; x (T, D) are the tokens right after those in kv.
    returns (T, D) and the grown kv = (k, v), each (S, H, d)"""
    T, D = x.shape
    H, d = cfg["H"], cfg["D"] // cfg["H"]
    q, k, v = (a.reshape(T, H, d) for a in jnp.split(x @ p["qkv"], 3, axis=-1))
    if kv is not None:
        k = jnp.concatenate([kv[0], k], axis=0)
        v = jnp.concatenate([kv[1], v], axis=0)
    S = k.shape[0]
    s = jnp.einsum("thd,shd->hts", q, k) / jnp.sqrt(d)
    see = jnp.tril(jnp.ones((T, S), dtype=bool))
    s = jnp.where(see, s, jnp.finfo(s.dtype).min)
    w = jax.nn.softmax(s, axis=-1)
    y = jnp.einsum("hts,shd->thd", w, v).reshape(T, D)
    return y @ p["o"], (k, v)


def mlp(p, x):
    return jax.nn.gelu(x @ p["up"]) @ p["down"]


def forward(cfg, params, tokens, cache=None):
    start = 0 if cache is None else cache[0][0].shape[0]
    x = params["wte"][tokens] + params["wpe"][start + jnp.arange(tokens.shape[0])]
    new = []
    for i, p in enumerate(params["layers"]):
        y, kv = attend(cfg, p, norm(x), None if cache is None else cache[i])
        x = x + y
        x = x + mlp(p, norm(x))
        new.append(kv)
    return norm(x) @ params["wte"].T, new


def loss(cfg, params, tokens):
    logits, _ = forward(cfg, params, tokens[:-1])
    return -jnp.take_along_axis(jax.nn.log_softmax(logits), tokens[1:, None], 1).mean()


def generate(cfg, params, prompt, n, key, chunk=16):
    cache = None
    for i in range(0, len(prompt), chunk):
        logits, cache = forward(cfg, params, prompt[i:i + chunk], cache)
    out = []
    for k in jr.split(key, n):
        t = jr.categorical(k, logits[-1])
        out.append(int(t))
        logits, cache = forward(cfg, params, t[None], cache)
    return out


if __name__ == "__main__":
    params = init(cfg, jr.PRNGKey(0))
    print(generate(cfg, params, jnp.arange(40), 8, jr.PRNGKey(1)))
