"""Gated Transformer-XL policy for MiniGrid, plain JAX with parameter dicts.

observations [T, D] of one environment, memory [M, D] from the segment before
(no gradient). Step t acts on what was seen up to and including step t.
"""
import jax
import jax.numpy as jnp

GRU_BIAS = 2.0


def dense_init(key, n_in, n_out):
    return {"w": jax.random.normal(key, (n_in, n_out)) / jnp.sqrt(n_in), "b": jnp.zeros(n_out)}


def dense(p, x):
    return x @ p["w"] + p["b"]


def layer_norm(p, x):
    m = x.mean(-1, keepdims=True)
    return (x - m) * jax.lax.rsqrt(x.var(-1, keepdims=True) + 1e-5) * p["g"] + p["b"]


def gru_gate(p, x, y):
    r = jax.nn.sigmoid(dense(p["wr"], y) + dense(p["ur"], x))
    z = jax.nn.sigmoid(dense(p["wz"], y) + dense(p["uz"], x) - GRU_BIAS)
    h = jnp.tanh(dense(p["wg"], y) + dense(p["ug"], r * x))
    return (1 - z) * x + z * h


def init_block(key, d):
    ks = iter(jax.random.split(key, 24))
    gate = lambda: {n: dense_init(next(ks), d, d) for n in ("wr", "ur", "wz", "uz", "wg", "ug")}
    return {
        "ln1": {"g": jnp.ones(d), "b": jnp.zeros(d)},
        "ln2": {"g": jnp.ones(d), "b": jnp.zeros(d)},
        "q": dense_init(next(ks), d, d), "k": dense_init(next(ks), d, d),
        "v": dense_init(next(ks), d, d), "o": dense_init(next(ks), d, d),
        "gate1": gate(), "gate2": gate(),
        "mlp1": dense_init(next(ks), d, 2 * d), "mlp2": dense_init(next(ks), 2 * d, d),
    }


def memory_attention(p, x, mem, n_heads):
    """Multi-head attention of the T steps over memory + segment (causal)."""
    T, d = x.shape
    M = mem.shape[0]
    full = jnp.concatenate([jax.lax.stop_gradient(mem), x], axis=0)
    q = dense(p["q"], x).reshape(T, n_heads, -1)
    k = dense(p["k"], full).reshape(M + T, n_heads, -1)
    v = dense(p["v"], full).reshape(M + T, n_heads, -1)
    score = jnp.einsum("ihd,jhd->hij", q, k) / jnp.sqrt(q.shape[-1])
    mask = jnp.tril(jnp.ones((T, M + T), dtype=bool), k=M + 1)
    score = jnp.where(mask[None], score, -1e30)
    prob = jax.nn.softmax(score, axis=-1)
    out = jnp.einsum("hij,jhd->ihd", prob, v).reshape(T, d)
    return dense(p["o"], out)


def block(p, x, mem, n_heads):
    both = layer_norm(p["ln1"], jnp.concatenate([mem, x], 0))
    m, h = both[:mem.shape[0]], both[mem.shape[0]:]
    y = memory_attention(p, h, m, n_heads)
    x = gru_gate(p["gate1"], x, jax.nn.relu(y))
    y = dense(p["mlp2"], jax.nn.relu(dense(p["mlp1"], layer_norm(p["ln2"], x))))
    return gru_gate(p["gate2"], x, jax.nn.relu(y))


def policy(params, obs, mems, n_heads=4):
    """Returns action logits [T, A], values [T] and the new memories."""
    x = dense(params["embed"], obs)
    new = []
    for p, mem in zip(params["blocks"], mems):
        new.append(jax.lax.stop_gradient(jnp.concatenate([mem, x], 0)[-mem.shape[0]:]))
        x = block(p, x, mem, n_heads)
    return dense(params["actor"], x), dense(params["critic"], x)[:, 0], new
