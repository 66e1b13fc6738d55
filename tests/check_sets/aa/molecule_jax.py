"""Attention message passing over molecules, JAX.

Graphs are batched by concatenation: `senders` and `receivers` hold node
indices, message i goes from senders[i] to receivers[i].
"""
import jax
import jax.numpy as jnp


def init_layer(key, n_in=10, n_out=16, heads=2):
    k1, k2, k3 = jax.random.split(key, 3)
    d = n_out // heads
    return {
        "w": jax.random.normal(k1, (n_in, heads, d)) / jnp.sqrt(n_in),
        "a_src": jax.random.normal(k2, (heads, d)) / jnp.sqrt(d),
        "a_dst": jax.random.normal(k3, (heads, d)) / jnp.sqrt(d),
    }


def segment_softmax(logits, segments, n):
    m = jax.ops.segment_max(logits, segments, n)
    m = jnp.where(jnp.isfinite(m), m, 0.0)
    e = jnp.exp(logits - m[segments])
    z = jax.ops.segment_sum(e, segments, n)
    return e / jnp.maximum(z[segments], 1e-12)


def message_layer(params, nodes, senders, receivers):
    """Every node gathers its neighbours' features, weighted by attention.

    nodes [N, F]; senders, receivers [E] -> [N, heads * d]
    """
    n = nodes.shape[0]
    h = jnp.einsum("nf,fhd->nhd", nodes, params["w"])
    s_src = (h * params["a_src"]).sum(-1)
    s_dst = (h * params["a_dst"]).sum(-1)
    logits = jax.nn.leaky_relu(s_src[senders] + s_dst[receivers], 0.2)
    alpha = segment_softmax(logits, receivers, n)
    messages = alpha[..., None] * h[receivers]
    out = jax.ops.segment_sum(messages, receivers, n)
    return jax.nn.elu(out.reshape(n, -1))


def readout(nodes, graph_ids, n_graphs):
    total = jax.ops.segment_sum(nodes, graph_ids, n_graphs)
    count = jax.ops.segment_sum(jnp.ones(len(nodes)), graph_ids, n_graphs)
    return total / jnp.maximum(count, 1.0)[:, None]


def forward(layers, nodes, senders, receivers, graph_ids, n_graphs):
    for p in layers:
        nodes = message_layer(p, nodes, senders, receivers)
    return readout(nodes, graph_ids, n_graphs)
