import jax
import jax.numpy as jnp


def graph_transformer_layer(params, nodes, senders, receivers, edge_feats):
    """nodes (V, D); senders, receivers (E,) int; edge_feats (E, F).

    A node with no incoming edge keeps its features.
    """
    V = nodes.shape[0]
    q = jnp.einsum("vd,dhk->vhk", nodes, params["q"])
    k = jnp.einsum("vd,dhk->vhk", nodes, params["k"])
    v = jnp.einsum("vd,dhk->vhk", nodes, params["v"])
    e = jnp.einsum("ef,fhk->ehk", edge_feats, params["e"])
    logit = jnp.sum(q[receivers] * (k[senders] + e), axis=-1) / jnp.sqrt(q.shape[-1])
    peak = jax.ops.segment_max(logit, receivers, V)
    num = jnp.exp(logit - peak[receivers])
    den = jax.ops.segment_sum(num, receivers, V)
    alpha = num / den[receivers]
    msg = alpha[..., None] * (v[senders] + e)
    return nodes + jax.ops.segment_sum(msg, receivers, V).reshape(V, -1) @ params["o"]
