"""Triangle attention around the starting node (AlphaFold 2, supplementary algorithm 13), pure JAX.

Parameters live in a plain dict; everything is a function and can be jitted or vmapped.
"""
from functools import partial

import jax
import jax.numpy as jnp

BIG = 1e9


def glorot(key, shape):
    fan_in, fan_out = shape[0], shape[-1]
    return jax.random.normal(key, shape) * jnp.sqrt(2.0 / (fan_in + fan_out))


def init_triangle(key, c_z=16, n_head=4, c=8):
    ks = jax.random.split(key, 6)
    return {
        "ln": {"scale": jnp.ones(c_z), "offset": jnp.zeros(c_z)},
        "q": glorot(ks[0], (c_z, n_head, c)),
        "k": glorot(ks[1], (c_z, n_head, c)),
        "v": glorot(ks[2], (c_z, n_head, c)),
        "bias": glorot(ks[3], (c_z, n_head)),
        "gate_w": glorot(ks[4], (c_z, n_head, c)),
        "gate_b": jnp.ones((n_head, c)),
        "o": glorot(ks[5], (n_head, c, c_z)),
        "o_b": jnp.zeros(c_z),
    }


def layer_norm(p, x):
    mu = x.mean(-1, keepdims=True)
    var = ((x - mu) ** 2).mean(-1, keepdims=True)
    return (x - mu) * jax.lax.rsqrt(var + 1e-5) * p["scale"] + p["offset"]


@jax.jit
def triangle_attention_starting(params, z, pair_mask):
    """z [N, N, c_z]; pair_mask [N, N], 1 where the pair is resolved.

    a_ijk = softmax_k( q_ij . k_ik / sqrt(c) + b_jk ),  o_ij = g_ij * sum_k a_ijk v_ik
    """
    x = layer_norm(params["ln"], z)
    c = params["q"].shape[-1]
    q = jnp.einsum("ija,ahc->ijhc", x, params["q"]) * c ** -0.5
    k = jnp.einsum("ija,ahc->ijhc", x, params["k"])
    v = jnp.einsum("ija,ahc->ijhc", x, params["v"])
    b = jnp.einsum("jka,ah->hjk", x, params["bias"])
    logits = jnp.einsum("ijhc,ikhc->ihjk", q, k) + b[None]
    logits = logits + (BIG * (pair_mask - 1.0))[:, None, None, :]
    w = jax.nn.softmax(logits, axis=-1)
    o = jnp.einsum("ihjk,ikhc->ijhc", w, v)
    g = jax.nn.sigmoid(jnp.einsum("ija,ahc->ijhc", x, params["gate_w"]) + params["gate_b"])
    return jnp.einsum("ijhc,hca->ija", g * o, params["o"]) + params["o_b"]


def triangle_attention_ending(params, z, pair_mask):
    """The same with the roles of the two residues exchanged."""
    out = triangle_attention_starting(params, z.swapaxes(0, 1), pair_mask.swapaxes(0, 1))
    return out.swapaxes(0, 1)


@partial(jax.jit, static_argnums=(3,))
def pair_stack(params_list, z, pair_mask, n_layers):
    for p in params_list[:n_layers]:
        z = z + triangle_attention_starting(p["start"], z, pair_mask)
        z = z + triangle_attention_ending(p["end"], z, pair_mask)
    return z


if __name__ == "__main__":
    key = jax.random.PRNGKey(0)
    p = init_triangle(key)
    print(triangle_attention_starting(p, jax.random.normal(key, (7, 7, 16)), jnp.ones((7, 7))).shape)
