"""Causal linear attention in JAX: parallel training form and recurrent form.

out_i = phi(q_i) S_i / (phi(q_i) . z_i),
S_i = sum_{j<=i} phi(k_j) v_j^T,   z_i = sum_{j<=i} phi(k_j),   phi = elu + 1.
There is no softmax and no 1/sqrt(d) in this family.
"""
from typing import NamedTuple, Tuple

import jax
import jax.numpy as jnp
from jax import lax


class State(NamedTuple):
    s: jax.Array  # [B, H, D, E]
    z: jax.Array  # [B, H, D]

    @staticmethod
    def zeros(b, h, d, e=None):
        e = e or d
        return State(jnp.zeros((b, h, d, e)), jnp.zeros((b, h, d)))


def feature(x):
    return jax.nn.elu(x) + 1.0


def step(state: State, qkv) -> Tuple[State, jax.Array]:
    q, k, v = qkv  # [B, H, D]
    fk = feature(k)
    s = state.s + fk[..., :, None] * v[..., None, :]
    z = state.z + fk
    fq = feature(q)
    out = jnp.einsum("bhd,bhde->bhe", fq, s) / jnp.einsum("bhd,bhd->bh", fq, z)[..., None]
    return State(s, z), out


def recurrent(q, k, v, state=None):
    """q, k, v [B, H, L, D] -> out [B, H, L, E] and the last state."""
    b, h, _, d = q.shape
    state = State.zeros(b, h, d, v.shape[-1]) if state is None else state
    xs = tuple(jnp.moveaxis(a, 2, 0) for a in (q, k, v))
    state, out = lax.scan(step, state, xs)
    return jnp.moveaxis(out, 0, 2), state


def linear_attention(q, k, v, state=None, chunk=8):
    """Chunked form; L must be a multiple of ``chunk``.  Same as `recurrent`."""
    b, h, l, d = q.shape
    e = v.shape[-1]
    if l % chunk:
        raise ValueError("length must be a multiple of the chunk")
    state = State.zeros(b, h, d, e) if state is None else state
    cut = lambda a: jnp.moveaxis(a.reshape(b, h, l // chunk, chunk, a.shape[-1]), 2, 0)
    tril = jnp.tril(jnp.ones((chunk, chunk)))

    def body(st, blk):
        fq, fk, vv = feature(blk[0]), feature(blk[1]), blk[2]
        a = jnp.einsum("bhid,bhjd->bhij", fq, fk) * tril
        num = jnp.einsum("bhij,bhje->bhie", a, vv) + jnp.einsum("bhid,bhde->bhie", fq, st.s)
        den = a.sum(-1) + jnp.einsum("bhid,bhd->bhi", fq, st.z)
        new = State(st.s + jnp.einsum("bhjd,bhje->bhde", fk, vv), st.z + fk.sum(2))
        return new, num / den[..., None]

    state, out = lax.scan(body, state, (cut(q), cut(k), cut(v)))
    return jnp.moveaxis(out, 0, 2).reshape(b, h, l, e), state


def block(params, x, heads, state=None, chunk=8):
    """x [B, L, C]; params: dict with wq wk wv wo."""
    b, l, c = x.shape
    f = lambda w: (x @ params[w]).reshape(b, l, heads, c // heads).transpose(0, 2, 1, 3)
    y, state = linear_attention(f("wq"), f("wk"), f("wv"), state, chunk)
    return x + y.transpose(0, 2, 1, 3).reshape(b, l, c) @ params["wo"], state


if __name__ == "__main__":
    q, k, v = jax.random.normal(jax.random.PRNGKey(0), (3, 1, 2, 16, 4))
    print(jnp.abs(linear_attention(q, k, v)[0] - recurrent(q, k, v)[0]).max())
