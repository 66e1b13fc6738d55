"""Graph transformer convolution with edge features (Shi et al. 2021), JAX segment ops.

graph_transformer(p, nodes, edges, senders, receivers)
    nodes (N, F), edges (E, G), senders / receivers (E,) int: edge e carries a message from
    senders[e] to receivers[e].
    p: wq, wk, wv (F, H, D), we (G, H, D), wskip (F, H*D)
    logit_e = q[receiver] . (k[sender] + e) / sqrt(D);  softmax over the edges of one receiver;
    out = sum alpha_e (v[sender] + e) + nodes @ wskip          (N, H*D)
A receiver with no edge keeps only its skip term.
"""
import jax
import jax.numpy as jnp


def segment_softmax(logits, seg, n):
    hi = jax.ops.segment_max(logits, seg, num_segments=n)
    hi = jnp.where(jnp.isfinite(hi), hi, 0.0)
    ex = jnp.exp(logits - jax.lax.stop_gradient(hi)[seg])
    return ex / jax.ops.segment_sum(ex, seg, num_segments=n)[seg]


def graph_transformer(p, nodes, edges, senders, receivers):
    n = nodes.shape[0]
    q, k, v = (jnp.einsum("nf,fhd->nhd", nodes, p[w]) for w in ("wq", "wk", "wv"))
    e = jnp.einsum("eg,ghd->ehd", edges, p["we"])
    D = q.shape[-1]
    logits = jnp.sum(q[receivers] * (k[senders] + e), axis=-1) / jnp.sqrt(D)
    alpha = segment_softmax(logits, receivers, n)
    mess = alpha[..., None] * (v[senders] + e)
    agg = jax.ops.segment_sum(mess, receivers, num_segments=n)
    return agg.reshape(n, -1) + nodes @ p["wskip"]
