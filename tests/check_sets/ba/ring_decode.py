# ring-buffer decode for long running text streams (one sequence per call, vmap for more)
import jax
import jax.numpy as jnp


def new_state(slots, heads, dim):
    """`slots` keys are remembered: the current token and the slots-1 before it."""
    return {
        "k": jnp.zeros((slots, heads, dim)),
        "v": jnp.zeros((slots, heads, dim)),
        "t": jnp.zeros((), jnp.int32),
    }


def _rot(x, pos):
    # half-split rope; x (heads, dim)
    d = x.shape[-1] // 2
    ang = pos.astype(jnp.float32) * 10000.0 ** (-jnp.arange(d) / d)
    a, b = x[:, :d], x[:, d:]
    return jnp.concatenate([a * jnp.cos(ang) - b * jnp.sin(ang), a * jnp.sin(ang) + b * jnp.cos(ang)], -1)


def ring_step(state, qkv):
    """One token. qkv (3, heads, dim) -> (new state, out (heads, dim)).

    Keys are stored already rotated by their absolute position, thus the order
    of the slots does not matter for the sum.
    """
    q, k, v = qkv
    n = state["k"].shape[0]
    t = state["t"]
    at = t % n
    K = state["k"].at[at].set(_rot(k, t))
    V = state["v"].at[at].set(v)
    used = jnp.arange(n) <= t          # from t = n-1 on all slots are in use
    s = jnp.einsum("hd,nhd->hn", _rot(q, t), K) / jnp.sqrt(q.shape[-1])
    s = jnp.where(used[None], s, -jnp.inf)
    out = jnp.einsum("hn,nhd->hd", jax.nn.softmax(s, axis=-1), V)
    return {"k": K, "v": V, "t": t + 1}, out


@jax.jit
def ring_scan(state, qkvs):
    """qkvs (T, 3, heads, dim) -> (state, outs (T, heads, dim))"""
    return jax.lax.scan(ring_step, state, qkvs)


def batched(states, qkvs):
    return jax.vmap(ring_scan)(states, qkvs)


if __name__ == "__main__":
    st = new_state(4, 2, 8)
    st, ys = ring_scan(st, jax.random.normal(jax.random.PRNGKey(1), (10, 3, 2, 8)))
    print(int(st["t"]), ys.shape)
