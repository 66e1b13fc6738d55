"""Graph transformer layer with bond features, on an edge list."""
import jax
import jax.numpy as jnp


def init(rng, D, De, heads):
    ks = jax.random.split(rng, 6)
    shp = {"q": (D, D), "k": (D, D), "v": (D, D), "ek": (De, D), "ev": (De, D), "o": (D, D)}
    par = {n: jax.random.normal(k, s) / s[0] ** 0.5 for k, (n, s) in zip(ks, shp.items())}
    return par


def bondformer(par, x, src, dst, e, heads):
    """x [N, D]; edge m goes from atom src[m] to atom dst[m] and has features e[m] [De].

    Atom i takes the messages of its incoming edges (dst == i), weighted by a softmax over them
    per head of  q_i . (k_src + E_k e) / sqrt(D / heads). The message is v_src + E_v e.
    Atoms without incoming edges give the zero vector.
    """
    N, D = x.shape
    d = D // heads
    q = (x @ par["q"]).reshape(N, heads, d)
    k = (x @ par["k"])[src] + e @ par["ek"]
    v = (x @ par["v"])[src] + e @ par["ev"]
    k, v = k.reshape(-1, heads, d), v.reshape(-1, heads, d)
    score = jnp.sum(q[dst] * k, axis=-1) * d ** -0.5                       # [M, heads]
    top = jax.ops.segment_max(score, dst, num_segments=N)
    w = jnp.exp(score - jax.lax.stop_gradient(top)[dst])
    z = jax.ops.segment_sum(w, dst, num_segments=N)
    w = w / z[dst]
    out = jax.ops.segment_sum(w[..., None] * v, dst, num_segments=N)
    return out.reshape(N, D) @ par["o"]
