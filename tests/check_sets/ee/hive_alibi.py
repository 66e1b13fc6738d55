"""Bees in a queue hear the bees in front of them, the far ones more faintly (ALiBi, JAX).

hive_listen(new, wax, honey)
    new    (A, H, d)   the A youngest bees' questions, H feelers (heads); H is a power of 2
    wax    (Z, H, d)   keys of the whole queue, oldest first; its last A are the same bees
    honey  (Z, H, c)   values
returns (A, H, c).  Z >= A.

Bee number p hears bee number z <= p (itself included) with the logit
    new_p . wax_z / sqrt(d) - m_h * (p - z),   m_h = 2 ** (-8 h / H), h = 1 .. H
and the softmax runs over the bees heard.
"""
import jax
import jax.numpy as jnp


def feeler_slopes(H):
    return jnp.exp2(-8.0 / H * jnp.arange(1, H + 1))


@jax.jit
def hive_listen(new, wax, honey):
    A, H, d = new.shape
    Z = wax.shape[0]
    p = jnp.arange(Z - A, Z)[:, None]
    z = jnp.arange(Z)[None, :]
    buzz = jnp.einsum("ahd,zhd->ahz", new, wax) * (d ** -0.5)
    far = (p - z)[:, None, :]                                # (A, 1, Z)
    buzz = buzz - feeler_slopes(H)[None, :, None] * far
    buzz = jnp.where(far >= 0, buzz, -jnp.inf)
    loud = jax.nn.softmax(buzz, axis=-1)
    return jnp.einsum("ahz,zhc->ahc", loud, honey)
