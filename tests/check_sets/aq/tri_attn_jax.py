"""Triangle attention around starting nodes, single example, for the RNA structure model (JAX)."""
import jax
import jax.numpy as jnp


def glorot(key, *shape):
    return jax.random.normal(key, shape) * (2.0 / (shape[0] + shape[-1])) ** 0.5


def init_triangle(key, c, heads, c_hid):
    ks = jax.random.split(key, 6)
    return {
        "q": glorot(ks[0], c, heads, c_hid),
        "k": glorot(ks[1], c, heads, c_hid),
        "v": glorot(ks[2], c, heads, c_hid),
        "bias": glorot(ks[3], c, heads),
        "gate": glorot(ks[4], c, heads * c_hid),
        "out": glorot(ks[5], heads * c_hid, c),
        "ln_g": jnp.ones(c),
        "ln_b": jnp.zeros(c),
    }


def norm(p, x):
    mu = x.mean(-1, keepdims=True)
    return (x - mu) / jnp.sqrt(x.var(-1, keepdims=True) + 1e-5) * p["ln_g"] + p["ln_b"]


def triangle_start(p, pair, mask):
    """pair [N, N, c]; mask [N, N], 1 where both residues are resolved, 0 where not.

    For each start node i, edge ij attends to the edges ik (scaled dot product
    plus a bias from edge jk); edges ik with mask 0 are left out. The heads stand
    side by side in the last axis before the gate: [N, N, heads * c_hid].
    """
    z = norm(p, pair)
    n = z.shape[0]
    q = jnp.einsum("ijc,chd->ihjd", z, p["q"])
    k = jnp.einsum("ijc,chd->ihjd", z, p["k"])
    v = jnp.einsum("ijc,chd->ihjd", z, p["v"])
    b = jnp.einsum("jkc,ch->hjk", z, p["bias"])
    s = jnp.einsum("ihjd,ihkd->ihjk", q, k) + b[None]
    s = s + mask[:, None, None, :]
    a = jax.nn.softmax(s, axis=-1)
    o = jnp.einsum("ihjk,ihkd->ihjd", a, v)
    o = o.reshape(n, n, -1)
    g = jax.nn.sigmoid(z @ p["gate"])
    return (o * g) @ p["out"]


def triangle_end(p, pair, mask):
    """same around the ending node"""
    return triangle_start(p, pair.swapaxes(0, 1), mask.T).swapaxes(0, 1)


def transition(p, x):
    h = jax.nn.relu(norm(p, x) @ p["w1"])
    return h @ p["w2"]


def pair_stack(params, pair, mask):
    for layer in params:
        pair = pair + triangle_start(layer["start"], pair, mask)
        pair = pair + triangle_end(layer["end"], pair, mask)
        pair = pair + transition(layer["ff"], pair)
    return pair
