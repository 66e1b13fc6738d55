"""Triangle attention around the starting node, as pure functions on a params dict.

pair : (N, N, C)     mask : (N, N) with 1 for real residue pairs and 0 for padding
"""
import jax
import jax.numpy as jnp


def glorot(key, *shape):
    return jax.random.normal(key, shape) / jnp.sqrt(shape[0])


def init_triangle(key, c_pair, heads, c_head):
    ks = jax.random.split(key, 7)
    return {
        "ln": {"g": jnp.ones(c_pair), "b": jnp.zeros(c_pair)},
        "q": glorot(ks[0], c_pair, heads, c_head),
        "k": glorot(ks[1], c_pair, heads, c_head),
        "v": glorot(ks[2], c_pair, heads, c_head),
        "bias": glorot(ks[3], c_pair, heads),
        "gate_w": glorot(ks[4], c_pair, heads, c_head),
        "gate_b": jnp.ones((heads, c_head)),
        "out_w": glorot(ks[5], heads * c_head, c_pair).reshape(heads, c_head, c_pair),
        "out_b": jnp.zeros(c_pair),
    }


def layer_norm(p, x, eps=1e-5):
    m = x.mean(-1, keepdims=True)
    v = ((x - m) ** 2).mean(-1, keepdims=True)
    return (x - m) * jax.lax.rsqrt(v + eps) * p["g"] + p["b"]


def triangle_attention(params, pair, mask, *, orientation="per_row"):
    """For row i: token j attends to token k with logits q_ij . k_ik + b_jk."""
    if orientation not in ("per_row", "per_column"):
        raise ValueError(orientation)
    if orientation == "per_column":
        pair, mask = pair.swapaxes(0, 1), mask.swapaxes(0, 1)

    x = layer_norm(params["ln"], pair)
    c = params["q"].shape[-1]
    q = jnp.einsum("ijc,chd->ijhd", x, params["q"]) * c ** -0.5
    k = jnp.einsum("ikc,chd->ikhd", x, params["k"])
    v = jnp.einsum("ikc,chd->ikhd", x, params["v"])
    tri = jnp.einsum("jkc,ch->hjk", x, params["bias"])

    logits = jnp.einsum("ijhd,ikhd->ihjk", q, k) + tri[None]
    logits = jnp.where(mask[:, None, None, :] > 0, logits, -1e9)
    w = jax.nn.softmax(logits, axis=-1)
    o = jnp.einsum("ihjk,ikhd->ijhd", w, v)

    gate = jax.nn.sigmoid(jnp.einsum("ijc,chd->ijhd", x, params["gate_w"]) + params["gate_b"])
    y = jnp.einsum("ijhd,hdc->ijc", o * gate, params["out_w"]) + params["out_b"]
    return y.swapaxes(0, 1) if orientation == "per_column" else y


def transition(params, x):
    h = jax.nn.relu(layer_norm(params["ln"], x) @ params["w1"] + params["b1"])
    return h @ params["w2"] + params["b2"]


def pair_stack(layers, pair, mask):
    for lp in layers:
        pair = pair + triangle_attention(lp["start"], pair, mask)
        pair = pair + triangle_attention(lp["end"], pair, mask, orientation="per_column")
        pair = pair + transition(lp["ff"], pair)
    return pair
