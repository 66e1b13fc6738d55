"""AGNN propagation layers in JAX (Thekumparampil et al. 2018).

h_i <- sum over j in N(i) + {i} of P_ij h_j,
P_i. = softmax over those j of  beta * cos(h_i, h_j)      (beta: one scalar per layer)

agnn(params, x, senders, receivers)
    params : {"W0": (F, D), "beta": (L,), "W1": (D, classes)}
    x (N, F); senders, receivers (E,) int: edge senders[e] -> receivers[e]
    (both directions listed by the caller, *no* self loops: they are added here)
returns log-probabilities (N, classes).
"""
import jax
import jax.numpy as jnp


def segment_softmax(logits, seg, n):
    peak = jax.ops.segment_max(logits, seg, num_segments=n)
    e = jnp.exp(logits - jax.lax.stop_gradient(peak)[seg])
    return e / jax.ops.segment_sum(e, seg, num_segments=n)[seg]


def unit(h, eps=1e-8):
    return h / jnp.maximum(jnp.linalg.norm(h, axis=-1, keepdims=True), eps)


def propagate(h, beta, snd, rcv):
    u = unit(h)
    logits = beta * jnp.sum(u[snd] * u[rcv], axis=-1)
    p = segment_softmax(logits, rcv, h.shape[0])
    return jax.ops.segment_sum(p[:, None] * h[snd], rcv, num_segments=h.shape[0])


@jax.jit
def agnn(params, x, senders, receivers):
    loop = jnp.arange(x.shape[0])
    snd = jnp.concatenate([senders, loop])
    rcv = jnp.concatenate([receivers, loop])
    h = jax.nn.relu(x @ params["W0"])
    h, _ = jax.lax.scan(lambda c, b: (propagate(c, b, snd, rcv), None), h, params["beta"])
    return jax.nn.log_softmax(h @ params["W1"], axis=-1)
