"""Transformer core with segment memory for recurrent PPO (JAX, functions over dicts).

The actor unrolls T steps.  Inside the unroll a step looks at itself and at earlier steps
of the same episode, and at the M hidden states kept from the unroll before, unless an
episode ended in between.  All of this is put into ONE additive bias per unroll:

    bias[b, t, s] = 0    step t may look at slot s   (slots: M memory, then T new steps)
    bias[b, t, s] = NEG  it may not
"""
import jax
import jax.numpy as jnp

NEG = -1e30


def make_bias(first, mem_valid):
    """first [B, T] bool: step t is the first of an episode.  mem_valid [B, M] bool."""
    episode = jnp.cumsum(first.astype(jnp.int32), axis=1)              # 0: goes on from before
    t = first.shape[1]
    same = episode[:, :, None] == episode[:, None, :]
    past = jnp.tril(jnp.ones((t, t), bool))
    new = same & past
    old = (episode == 0)[:, :, None] & mem_valid[:, None, :]
    return jnp.where(jnp.concatenate([old, new], axis=2), 0.0, NEG)


def init_core(rng, dim, n_heads, n_layers):
    assert dim % n_heads == 0
    layers = []
    for r in jax.random.split(rng, n_layers):
        r = jax.random.split(r, 6)
        w = {n: jax.random.normal(k, (dim, dim)) / dim ** 0.5 for n, k in zip(["q", "k", "v", "o"], r)}
        w["up"] = jax.random.normal(r[4], (dim, 4 * dim)) / dim ** 0.5
        w["down"] = jax.random.normal(r[5], (4 * dim, dim)) / (4 * dim) ** 0.5
        w["gate_a"] = jnp.full((dim,), -2.0)
        w["gate_m"] = jnp.full((dim,), -2.0)
        layers.append(w)
    return layers


def norm(x):
    mu = x.mean(-1, keepdims=True)
    return (x - mu) / jnp.sqrt(x.var(-1, keepdims=True) + 1e-5)


def memory_attention(w, x, memory, bias, n_heads):
    """x [B, T, D] new steps, memory [B, M, D], bias [B, T, M + T] from make_bias."""
    b, t, d = x.shape
    ctx = jnp.concatenate([jax.lax.stop_gradient(memory), x], axis=1)
    s = ctx.shape[1]
    hd = d // n_heads
    q = norm(x) @ w["q"]
    k = norm(ctx) @ w["k"]
    v = norm(ctx) @ w["v"]
    q = q.reshape(b, t, n_heads, hd).transpose(0, 2, 1, 3)
    k = k.reshape(b, s, n_heads, hd).transpose(0, 2, 1, 3)
    v = v.reshape(b, s, n_heads, hd).transpose(0, 2, 1, 3)
    scores = jnp.matmul(q, jnp.swapaxes(k, -1, -2)) / jnp.sqrt(hd)
    scores = jnp.where(bias[:, None].astype(bool), scores, NEG)
    p = jax.nn.softmax(scores, axis=-1)
    y = jnp.matmul(p, v).transpose(0, 2, 1, 3).reshape(b, t, d)
    return y @ w["o"]


def core(params, x, memories, first, mem_valid, n_heads):
    """One unroll.  memories: list of [B, M, D], one per layer.  Returns (y, new memories, valid)."""
    bias = make_bias(first, mem_valid)
    m = mem_valid.shape[1]
    kept = []
    for w, mem in zip(params, memories):
        kept.append(jnp.concatenate([mem, x], axis=1)[:, -m:])
        y = memory_attention(w, x, mem, bias, n_heads)
        x = x + jax.nn.sigmoid(w["gate_a"]) * y
        x = x + jax.nn.sigmoid(w["gate_m"]) * (jax.nn.relu(norm(x) @ w["up"]) @ w["down"])
    # what belongs to an episode that has ended is of no use to the next unroll
    episode = jnp.cumsum(first.astype(jnp.int32), axis=1)
    last = episode[:, -1:]
    alive = jnp.concatenate([mem_valid & (last == 0), episode == last], axis=1)[:, -m:]
    return x, kept, alive


def heads(p, y):
    return jax.nn.log_softmax(y @ p["pi"]), (y @ p["v"])[..., 0]


def gae(rewards, values, dones, last_value, gamma=0.99, lam=0.95):
    def back(carry, inp):
        adv, nxt = carry
        r, v, d = inp
        delta = r + gamma * nxt * (1 - d) - v
        adv = delta + gamma * lam * (1 - d) * adv
        return (adv, v), adv
    _, advs = jax.lax.scan(back, (jnp.zeros_like(last_value), last_value),
                           (rewards, values, dones), reverse=True)
    return advs


if __name__ == "__main__":
    D, H, L, B, T, M = 32, 4, 2, 3, 6, 8
    params = init_core(jax.random.PRNGKey(0), D, H, L)
    mems = [jnp.zeros((B, M, D))] * L
    valid = jnp.zeros((B, M), bool)
    for i in range(3):
        x = jax.random.normal(jax.random.PRNGKey(i), (B, T, D))
        first = jnp.zeros((B, T), bool).at[0, 3].set(True)
        y, mems, valid = core(params, x, mems, first, valid, H)
    print(y.shape, valid.sum(1))
