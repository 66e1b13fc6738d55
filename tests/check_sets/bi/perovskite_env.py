# perovskite_env.py -- local-environment descriptor for ABX3 cells
#
# Each site looks at its M nearest neighbours (periodic images included).  The
# arrays are laid out as the neighbour list code delivers them:
#
#   site features   (S, F)
#   neigh index     (S, M)   int
#   neigh distance  (S, M)   Angstrom, > cutoff means "no neighbour there"
#
# Each channel ("head") a = 0..A-1 keeps its own weighted mean over the
# neighbours of a site; the A means are concatenated.
import math

import jax
import jax.numpy as jnp

R_CUT = 6.0


def init(key, F, A, d):
    kq, kk, kv, kb = jax.random.split(key, 4)
    g = lambda k, *s: jax.random.normal(k, s) / math.sqrt(s[0])
    return {
        "q": g(kq, F, A, d),
        "k": g(kk, F, A, d),
        "v": g(kv, F, A, d),
        "decay": jnp.abs(jax.random.normal(kb, (A,))),
    }


def cosine_cutoff(r):
    return jnp.where(r < R_CUT, 0.5 * (jnp.cos(jnp.pi * r / R_CUT) + 1.0), 0.0)


def environment(params, x, nbr, r):
    """Weighted mean of the neighbours, one per channel -> (S, A*d).

    Logits are <q, k>/sqrt(d) minus a learned decay times the distance.
    Absent neighbours (r > R_CUT) get no weight.
    """
    q = jnp.einsum("sf,fad->sad", x, params["q"])
    k = jnp.einsum("sf,fad->sad", x, params["k"])[nbr]      # (S, M, A, d)
    v = jnp.einsum("sf,fad->sad", x, params["v"])[nbr]

    logit = jnp.einsum("sad,smad->sma", q, k) / math.sqrt(q.shape[-1])
    logit = logit - params["decay"] * r[..., None]
    present = (r <= R_CUT)[..., None]
    logit = jnp.where(present, logit, -jnp.inf)

    w = jax.nn.softmax(logit, axis=(-2, -1))
    out = jnp.einsum("sma,smad->sad", w, v)
    return out.reshape(x.shape[0], -1)


def formation_energy(params, readout, x, nbr, r):
    h = environment(params, x, nbr, r)
    per_site = jnp.tanh(h @ readout["w1"]) @ readout["w2"]
    return per_site.mean()


if __name__ == "__main__":
    key = jax.random.PRNGKey(3)
    p = init(key, 8, 2, 4)
    x = jax.random.normal(key, (5, 8))
    nbr = jax.random.randint(key, (5, 4), 0, 5)
    r = jax.random.uniform(key, (5, 4), minval=1.5, maxval=5.9)
    print(environment(p, x, nbr, r).shape)
