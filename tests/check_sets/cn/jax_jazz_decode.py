"""Jazz solo continuation: rotary causal attention with a key/value cache, plain JAX.

    params = init(key)
    y, cache = attend(params, x_prompt)            # prefill
    y, cache = attend(params, x_next, cache)       # one or more further notes

Feeding a solo in pieces gives the same as feeding it at once.  Rotation is of the
half-split kind (GPT-NeoX); the keys are stored rotated.
"""
import jax
import jax.numpy as jnp

HEADS = 4


def init(key, dim=32):
    ks = jax.random.split(key, 4)
    return {n: jax.random.normal(k, (dim, dim)) / jnp.sqrt(dim) for n, k in zip("qkvo", ks)}


def rotary(x, positions, base=10_000.0):
    """x [B, H, T, d], positions [T]"""
    half = x.shape[-1] // 2
    freq = base ** (-jnp.arange(half) / half)
    angle = positions[:, None] * freq[None, :]
    cos, sin = jnp.cos(angle), jnp.sin(angle)
    a, b = x[..., :half], x[..., half:]
    return jnp.concatenate([a * cos - b * sin, b * cos + a * sin], axis=-1)


def _split(x):
    B, T, D = x.shape
    return x.reshape(B, T, HEADS, D // HEADS).transpose(0, 2, 1, 3)


def attend(params, x, cache=None):
    """x [B, T, dim]; cache None or {"k", "v"} with [B, H, S, d].
    Returns ([B, T, dim], new cache)."""
    B, T, D = x.shape
    q, k, v = (_split(x @ params[n]) for n in "qkv")
    positions = jnp.arange(T)
    q = rotary(q, positions)
    k = rotary(k, positions)
    if cache is not None:
        k = jnp.concatenate([cache["k"], k], axis=2)
        v = jnp.concatenate([cache["v"], v], axis=2)
    S = k.shape[2]
    scores = jnp.einsum("bhtd,bhsd->bhts", q, k) / jnp.sqrt(q.shape[-1])
    visible = jnp.tril(jnp.ones((T, S), dtype=bool), k=S - T)
    scores = jnp.where(visible, scores, -jnp.inf)
    w = jax.nn.softmax(scores, axis=-1)
    y = jnp.einsum("bhts,bhsd->bthd", w, v).reshape(B, T, D)
    return y @ params["o"], {"k": k, "v": v}


def continue_solo(params, prompt, following):
    """prompt [B, P, dim], following [B, F, dim], fed note by note -> [B, F, dim]"""
    _, cache = attend(params, prompt)
    ys = []
    for t in range(following.shape[1]):
        y, cache = attend(params, following[:, t:t + 1], cache)
        ys.append(y)
    return jnp.concatenate(ys, axis=1)


if __name__ == "__main__":
    p = init(jax.random.PRNGKey(0))
    a = jax.random.normal(jax.random.PRNGKey(1), (1, 6, 32))
    print(continue_solo(p, a[:, :4], a[:, 4:]).shape)
