"""Point transformer step on jet constituents (LHC toy data), JAX.

step(params, feats, pos, alive, k)
    feats (N, F), pos (N, 2) = (eta, phi), alive (N,) bool True = real particle;
    there are at least k real particles.
    Every particle looks at its k nearest REAL particles (itself included if it
    is real) in the eta-phi plane, phi being periodic. Vector attention:

        w_ij = softmax_j( MLP(q_i - k_j + p_ij) )      per channel
        y_i  = sum_j w_ij * (v_j + p_ij)

    with p_ij = (pos_i - pos_j) Wp. The softmax runs over the k neighbours,
    separately in each of the D channels. Result (N, D); rows of particles that
    are not alive are set to zero.
"""
import functools

import jax
import jax.numpy as jnp


def difference(pos):
    d = pos[:, None, :] - pos[None, :, :]
    dphi = jnp.mod(d[..., 1] + jnp.pi, 2 * jnp.pi) - jnp.pi
    return d.at[..., 1].set(dphi)


@functools.partial(jax.jit, static_argnames="k")
def step(params, feats, pos, alive, k=3):
    delta = difference(pos)                                   # N N 2
    r2 = (delta ** 2).sum(-1)
    r2 = jnp.where(alive[None, :], r2, jnp.inf)
    _, near = jax.lax.top_k(-r2, k)                           # N k

    p = jnp.take_along_axis(delta, near[..., None], axis=1) @ params["Wp"]
    q = feats @ params["Wq"]
    key = (feats @ params["Wk"])[near]
    val = (feats @ params["Wv"])[near]

    hidden = jax.nn.relu((q[:, None, :] - key + p) @ params["W1"])
    w = jax.nn.softmax(hidden @ params["W2"], axis=1)         # over neighbours
    y = jnp.sum(w * (val + p), axis=1)
    return jnp.where(alive[:, None], y, 0.0)
