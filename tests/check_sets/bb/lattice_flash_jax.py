"""Memory-efficient attention for lattice field configurations (JAX, lax.scan).

Sites are scanned in blocks; running maximum m, running sum l, running output o.
Periodic lattices: no mask, all sites see all sites.
"""
from functools import partial

import jax
import jax.numpy as jnp
from jax import lax


@partial(jax.jit, static_argnames=("block",))
def site_attention(q, k, v, block=16):
    """q (N, d), k (M, d), v (M, e), M a multiple of block -> (N, e)

    exactly softmax(q k^T / sqrt(d)) v
    """
    N, d = q.shape
    M = k.shape[0]
    if M % block:
        raise ValueError("number of sites must be a multiple of the block")
    kb = k.reshape(M // block, block, d)
    vb = v.reshape(M // block, block, -1)
    q = q / jnp.sqrt(d)

    def body(carry, kv):
        m, l, o = carry
        kj, vj = kv
        s = q @ kj.T
        m_new = jnp.maximum(m, s.max(axis=1))
        p = jnp.exp(s - m_new[:, None])
        l = l * jnp.exp(m - m_new) + p.sum(axis=1)
        o = o + p @ vj
        return (m_new, l, o), None

    start = (jnp.full(N, -jnp.inf, q.dtype), jnp.zeros(N, q.dtype), jnp.zeros((N, v.shape[1]), q.dtype))
    (_, l, o), _ = lax.scan(body, start, (kb, vb))
    return o / l[:, None]


def neighbours(phi):
    """sum over the 4 neighbours on the periodic square lattice"""
    return sum(jnp.roll(phi, s, a) for s in (1, -1) for a in (0, 1))


def action(phi, mass2=-1.0, lam=0.5):
    """phi^4 action per configuration"""
    kin = phi * (4 * phi - neighbours(phi)) / 2
    return (kin + mass2 * phi ** 2 / 2 + lam * phi ** 4 / 4).sum()


def features(phi):
    f = jnp.stack([phi, neighbours(phi), phi ** 2, jnp.abs(phi)], axis=-1)
    return f.reshape(-1, 4)


def init(key, d=8):
    a, b, c, e = jax.random.split(key, 4)
    n = lambda k, i, o: jax.random.normal(k, (i, o)) / jnp.sqrt(i)
    return {"q": n(a, 4, d), "k": n(b, 4, d), "v": n(c, 4, d), "o": n(e, d, 1)}


def drift(params, phi):
    """learned drift of the Langevin sampler, same shape as phi"""
    f = features(phi)
    y = site_attention(f @ params["q"], f @ params["k"], f @ params["v"])
    return (y @ params["o"]).reshape(phi.shape) - jax.grad(action)(phi)


def langevin(params, key, phi, dt=0.01, steps=10):
    def one(phi, k):
        noise = jax.random.normal(k, phi.shape)
        return phi + dt * drift(params, phi) + jnp.sqrt(2 * dt) * noise, action(phi)
    return lax.scan(one, phi, jax.random.split(key, steps))


if __name__ == "__main__":
    key = jax.random.PRNGKey(4)
    phi, S = langevin(init(key), key, jax.random.normal(key, (8, 8)))
    print(S)
