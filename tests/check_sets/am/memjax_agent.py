"""Actor-critic with a segment memory (Transformer-XL style) in JAX, for the partially observed mazes.

The agent acts on segments of T steps. The hidden states of the last M steps stay as memory and are
put *before* the segment. A step may look at the whole memory and at the segment up to itself.
"""
import functools

import jax
import jax.numpy as jnp


def dense_init(key, i, o):
    return {"w": jax.random.normal(key, (i, o)) / jnp.sqrt(i), "b": jnp.zeros(o)}


def dense(p, x):
    return x @ p["w"] + p["b"]


def norm(x):
    x = x - x.mean(-1, keepdims=True)
    return x * jax.lax.rsqrt((x * x).mean(-1, keepdims=True) + 1e-5)


def init(key, obs, actions, dim=32, layers=2):
    ks = iter(jax.random.split(key, 3 + 6 * layers))
    return {
        "embed": dense_init(next(ks), obs, dim),
        "layers": [{n: dense_init(next(ks), *s) for n, s in
                    dict(q=(dim, dim), k=(dim, dim), v=(dim, dim), o=(dim, dim),
                         up=(dim, 4 * dim), down=(4 * dim, dim)).items()} for _ in range(layers)],
        "pi": dense_init(next(ks), dim, actions),
        "value": dense_init(next(ks), dim, 1),
    }


def memory_attention(p, x, mem, heads):
    """x [T, D] the segment, mem [M, D] what was before it."""
    t, d = x.shape
    ctx = jnp.concatenate([mem, x], axis=0)
    split = lambda z: z.reshape(z.shape[0], heads, d // heads)
    q, k, v = split(dense(p["q"], x)), split(dense(p["k"], ctx)), split(dense(p["v"], ctx))
    logits = jnp.einsum("qhd,khd->hqk", q, k) / jnp.sqrt(d // heads)
    causal = jnp.tril(jnp.ones((t, ctx.shape[0]), dtype=bool))
    logits = jnp.where(causal[None], logits, jnp.finfo(logits.dtype).min)
    out = jnp.einsum("hqk,khd->qhd", jax.nn.softmax(logits, -1), v)
    return dense(p["o"], out.reshape(t, d))


@functools.partial(jax.jit, static_argnames="heads")
def segment(params, obs, memory, heads=4):
    """obs [T, O]; memory: list with [M, D] per layer. Returns logits, values and the next memory."""
    x = dense(params["embed"], obs)
    nxt = []
    for p, mem in zip(params["layers"], memory):
        m = mem.shape[0]
        nxt.append(jax.lax.stop_gradient(jnp.concatenate([mem, x])[-m:]) if m else mem)
        x = x + memory_attention(p, norm(x), norm(mem) if m else mem, heads)
        x = x + dense(p["down"], jax.nn.relu(dense(p["up"], norm(x))))
    x = norm(x)
    return dense(params["pi"], x), dense(params["value"], x)[:, 0], nxt


def gae(rewards, values, last, gamma=0.99, lam=0.95):
    def step(carry, inp):
        adv, nv = carry
        r, v = inp
        adv = r + gamma * nv - v + gamma * lam * adv
        return (adv, v), adv
    _, adv = jax.lax.scan(step, (0.0, last), (rewards, values), reverse=True)
    return adv
