"""Attention critic of multi-actor-attention-critic, jax version for the warehouse env.

Agent i asks, all agents j != i answer; `alive` (batch, n) is True for agents still in play.
An agent with no living neighbour gets a zero message.
"""
from functools import partial

import jax
import jax.numpy as jnp


def init_critic(key, obs, act, hid, heads):
    ks = jax.random.split(key, 6)

    def n(k, *s):
        return jax.random.normal(k, s) / jnp.sqrt(s[-2])

    return {
        "enc_sa": n(ks[0], obs + act, hid),
        "enc_s": n(ks[1], obs, hid),
        "sel": n(ks[2], heads, hid, hid // heads),
        "key": n(ks[3], heads, hid, hid // heads),
        "val": n(ks[4], heads, hid, hid // heads),
        "q": n(ks[5], 2 * hid, act),
    }


def gather_messages(p, s_enc, sa_enc, alive):
    """s_enc, sa_enc (batch, n, hid) -> (batch, n, hid)"""
    b, n, hid = s_enc.shape
    ask = jnp.einsum("bnc,hcd->hbnd", s_enc, p["sel"])
    key = jnp.einsum("bnc,hcd->hbnd", sa_enc, p["key"])
    val = jax.nn.leaky_relu(jnp.einsum("bnc,hcd->hbnd", sa_enc, p["val"]))
    logit = jnp.einsum("hbid,hbjd->hbij", ask, key) / jnp.sqrt(key.shape[-1])
    other = ~jnp.eye(n, dtype=bool)[None] & alive[:, None, :]
    logit = jnp.where(other[None], logit, -1e30)
    w = jnp.where(other[None], jax.nn.softmax(logit, axis=-1), 0.0)
    msg = jnp.einsum("hbij,hbjd->bihd", w, val)
    return msg.reshape(b, n, hid)


@partial(jax.jit, static_argnums=())
def q_values(p, obs, act_onehot, alive):
    s = jax.nn.leaky_relu(obs @ p["enc_s"])
    sa = jax.nn.leaky_relu(jnp.concatenate([obs, act_onehot], -1) @ p["enc_sa"])
    m = gather_messages(p, s, sa, alive)
    return jnp.concatenate([s, m], -1) @ p["q"]


def td_target(r, gamma, done, q_next, logp, alpha=0.01):
    return r + gamma * (1 - done) * (q_next - alpha * logp)
