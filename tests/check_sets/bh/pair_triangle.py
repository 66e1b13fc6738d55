"""Triangle attention (starting node) on residue/atom pair representations.

Used for protein-ligand docking; JAX, parameters are plain nested dicts.

    z_ij <- sum_k softmax_k( q_ij . k_ik / sqrt(c) + b_jk ) v_ik * sigmoid(g_ij)

The edge ij therefore looks at all edges ik that leave the same node i, and the
third edge jk of the triangle enters only as a bias (one number per head).
"""
import functools

import jax
import jax.numpy as jnp

BIG_NEG = -1e9


def dense_init(key, n_in, *n_out):
    return jax.random.normal(key, (n_in,) + n_out) / jnp.sqrt(n_in)


def init_params(key, c_z=32, c=8, heads=4):
    ks = jax.random.split(key, 6)
    return {
        "ln": {"scale": jnp.ones(c_z), "offset": jnp.zeros(c_z)},
        "q": dense_init(ks[0], c_z, heads, c),
        "k": dense_init(ks[1], c_z, heads, c),
        "v": dense_init(ks[2], c_z, heads, c),
        "bias": dense_init(ks[3], c_z, heads),
        "gate": {"w": dense_init(ks[4], c_z, heads, c), "b": jnp.ones((heads, c))},
        "out": dense_init(ks[5], heads * c, c_z).reshape(heads, c, c_z),
    }


def layer_norm(p, x, eps=1e-5):
    mu = x.mean(-1, keepdims=True)
    var = ((x - mu) ** 2).mean(-1, keepdims=True)
    return (x - mu) * jax.lax.rsqrt(var + eps) * p["scale"] + p["offset"]


def triangle_attention(params, z, pair_mask):
    """z: (N, N, c_z); pair_mask: (N, N), 1 where the pair exists, 0 for padding.

    Returns the update of z (the caller adds it). Softmax runs in float32.
    """
    c = params["q"].shape[-1]
    z = layer_norm(params["ln"], z)
    q = jnp.einsum("ijz,zhc->ijhc", z, params["q"]) * c ** -0.5
    k = jnp.einsum("ijz,zhc->ijhc", z, params["k"])
    v = jnp.einsum("ijz,zhc->ijhc", z, params["v"])
    b = jnp.einsum("jkz,zh->hjk", z, params["bias"])

    logits = jnp.einsum("ijhc,ikhc->ihjk", q, k) + b[None]
    logits = logits.astype(jnp.float32)
    logits = logits + BIG_NEG * (1.0 - pair_mask.astype(jnp.float32))[:, None, None, :]
    w = jax.nn.softmax(logits, axis=-1).astype(v.dtype)
    o = jnp.einsum("ihjk,ikhc->ijhc", w, v)

    g = jax.nn.sigmoid(jnp.einsum("ijz,zhc->ijhc", z, params["gate"]["w"])
                       + params["gate"]["b"])
    return jnp.einsum("ijhc,hcz->ijz", o * g, params["out"])


def ending_node(params, z, pair_mask):
    """Same layer around the ending node: swap the two node axes before/after."""
    swap = functools.partial(jnp.swapaxes, axis1=0, axis2=1)
    return swap(triangle_attention(params, swap(z), swap(pair_mask)))


def pair_stack(param_list, z, pair_mask):
    for start, end in param_list:
        z = z + triangle_attention(start, z, pair_mask)
        z = z + ending_node(end, z, pair_mask)
    return z


if __name__ == "__main__":
    kk = jax.random.split(jax.random.PRNGKey(0), 3)
    z = jax.random.normal(kk[2], (9, 9, 32))
    print(pair_stack([(init_params(kk[0]), init_params(kk[1]))], z, jnp.ones((9, 9))).shape)
