"""GPT-J style rotary attention in JAX, done with complex numbers.

Neighbouring channels (0,1), (2,3), ... form one complex number, which is turned by
the angle  pos * 10000^(-2i/d),  i = 0 .. d/2-1  (that is the layout of GPT-J and of the
RoFormer paper; NeoX pairs differently).

    q, k, v : (L, H, d)   packed documents, one after another
    pos     : (L,) int    position inside its own document
    doc     : (L,) int    number of the document

A token sees the tokens of its own document whose position is not larger than its own.
Scores / sqrt(d), softmax over keys in float32.  Returns (L, H, d).
"""
import jax
import jax.numpy as jnp


def turn(x, pos):
    d = x.shape[-1]
    theta = 10000.0 ** (-jnp.arange(0, d, 2) / d)
    phase = jnp.exp(1j * pos[:, None, None] * theta)
    z = x[..., 0::2] + 1j * x[..., 1::2]
    z = z * phase
    return jnp.stack([z.real, z.imag], axis=-1).reshape(x.shape)


def packed_rotary_attention(q, k, v, pos, doc):
    q, k = turn(q.astype(jnp.float32), pos), turn(k.astype(jnp.float32), pos)
    logits = jnp.einsum("ihd,jhd->hij", q, k) * q.shape[-1] ** -0.5
    ok = (doc[:, None] == doc[None, :]) & (pos[None, :] <= pos[:, None])
    logits = jnp.where(ok, logits, jnp.finfo(jnp.float32).min)
    p = jax.nn.softmax(logits, axis=-1)
    return jnp.einsum("hij,jhd->ihd", p, v.astype(jnp.float32)).astype(v.dtype)
