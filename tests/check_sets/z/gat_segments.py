# Graph attention over an edge list, jax.  Veličković et al. 2018 / Brody et al. 2022 (v2).
import jax
import jax.numpy as jnp
from jax import random


def glorot(key, shape):
    lim = (6.0 / (shape[0] + shape[-1])) ** 0.5
    return random.uniform(key, shape, minval=-lim, maxval=lim)


def init_gat(key, f_in, f_out, heads):
    k1, k2, k3 = random.split(key, 3)
    return {
        "W": glorot(k1, (f_in, heads, f_out)),
        "a_src": glorot(k2, (heads, f_out)),
        "a_dst": glorot(k3, (heads, f_out)),
        "bias": jnp.zeros((heads, f_out)),
    }


def edge_softmax(score, receivers, n_nodes):
    """score (E, heads): normalised over the edges which end in the same node."""
    top = jax.ops.segment_max(score, receivers, num_segments=n_nodes)
    top = jnp.where(jnp.isfinite(top), top, 0.0)
    e = jnp.exp(score - top[receivers])
    z = jax.ops.segment_sum(e, receivers, num_segments=n_nodes)
    return e / z[receivers]


def gat_layer(p, x, senders, receivers, concat=True, slope=0.2, return_attention=False):
    """x (N, f_in); edge e goes from senders[e] to receivers[e].

    Self loops are added here, so every node has at least one incoming edge.
    """
    n = x.shape[0]
    loop = jnp.arange(n)
    s = jnp.concatenate([senders, loop])
    r = jnp.concatenate([receivers, loop])

    h = jnp.einsum("nf,fho->nho", x, p["W"])
    src = (h * p["a_src"]).sum(-1)
    dst = (h * p["a_dst"]).sum(-1)
    score = jax.nn.leaky_relu(src[s] + dst[r], slope)
    alpha = edge_softmax(score, r, n)

    out = jax.ops.segment_sum(alpha[:, :, None] * h[s], r, num_segments=n) + p["bias"]
    out = out.reshape(n, -1) if concat else out.mean(1)
    if return_attention:
        return out, alpha
    return out


def gat(params, x, senders, receivers):
    """Two layers: concatenated heads with elu, then averaged heads (class logits)."""
    h = jax.nn.elu(gat_layer(params[0], x, senders, receivers))
    return gat_layer(params[1], h, senders, receivers, concat=False)
