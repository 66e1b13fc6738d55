"""Triangle self-attention of the Evoformer, around the starting or the ending node."""
import jax
import jax.numpy as jnp


def glorot(key, n_in, n_out):
    return jax.random.normal(key, (n_in, n_out)) * jnp.sqrt(2.0 / (n_in + n_out))


def init(key, c_z, c_hidden, n_head):
    ks = jax.random.split(key, 7)
    w = c_hidden * n_head
    return {
        "norm": {"scale": jnp.ones(c_z), "offset": jnp.zeros(c_z)},
        "query": glorot(ks[0], c_z, w).reshape(c_z, n_head, c_hidden),
        "key": glorot(ks[1], c_z, w).reshape(c_z, n_head, c_hidden),
        "value": glorot(ks[2], c_z, w).reshape(c_z, n_head, c_hidden),
        "bias": glorot(ks[3], c_z, n_head),
        "gate_w": glorot(ks[4], c_z, w).reshape(c_z, n_head, c_hidden),
        "gate_b": jnp.ones((n_head, c_hidden)),
        "out_w": glorot(ks[5], w, c_z).reshape(n_head, c_hidden, c_z),
        "out_b": jnp.zeros(c_z),
    }


def _norm(p, x):
    x = x - x.mean(-1, keepdims=True)
    return x * jax.lax.rsqrt((x * x).mean(-1, keepdims=True) + 1e-5) * p["scale"] + p["offset"]


def apply(params, z, z_mask, starting=True):
    """z: [N, N, c_z], z_mask: [N, N] in {0, 1}. Returns the update of z."""
    if not starting:
        z, z_mask = jnp.swapaxes(z, 0, 1), z_mask.T
    z = _norm(params["norm"], z)

    # i, (j, k): edge ij looks at the edges ik, with the third edge jk as a bias
    q = jnp.einsum("ijc,chd->ijhd", z, params["query"]) * params["query"].shape[-1] ** -0.5
    k = jnp.einsum("ikc,chd->ikhd", z, params["key"])
    v = jnp.einsum("ikc,chd->ikhd", z, params["value"])
    third = jnp.einsum("jkc,ch->hjk", z, params["bias"])

    logits = jnp.einsum("ijhd,ikhd->ihjk", q, k) + third[None]
    logits += 1e9 * (z_mask[:, None, None, :] - 1.0)
    weights = jax.nn.softmax(logits, axis=-1)
    avg = jnp.einsum("ihjk,ikhd->ijhd", weights, v)

    gate = jax.nn.sigmoid(jnp.einsum("ijc,chd->ijhd", z, params["gate_w"]) + params["gate_b"])
    out = jnp.einsum("ijhd,hdc->ijc", gate * avg, params["out_w"]) + params["out_b"]
    return out if starting else jnp.swapaxes(out, 0, 1)


if __name__ == "__main__":
    key = jax.random.PRNGKey(0)
    params = init(key, 12, 5, 3)
    z = jax.random.normal(jax.random.fold_in(key, 1), (7, 7, 12))
    alive = (jnp.arange(7) < 6).astype(jnp.float32)
    mask = alive[:, None] * alive[None, :]
    for starting in (True, False):
        print(jax.jit(apply, static_argnums=3)(params, z, mask, starting).std())
