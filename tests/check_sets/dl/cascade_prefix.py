"""Cascade attention: many samples drawn from one prompt share the prompt's keys and values.

The prompt is attended to once for all samples together (it is one matrix product, the
samples standing in the place of query tokens), each sample's own suffix apart, and the two
partial results are merged through their log-sum-exps (natural logarithms).
"""
import jax
import jax.numpy as jnp


def partial_prompt(q, k, v):
    """q (R, H, D), k/v (P, H, D) -> out (R, H, D), lse (R, H)."""
    s = jnp.einsum("rhd,phd->rhp", q, k) / jnp.sqrt(q.shape[-1])
    lse = jax.nn.logsumexp(s, axis=-1)
    return jnp.einsum("rhp,phd->rhd", jnp.exp(s - lse[..., None]), v), lse


def partial_suffix(q, k, v, n):
    """q (R, H, D), k/v (R, T, H, D), n (R,) -> out (R, H, D), lse (R, H)."""
    s = jnp.einsum("rhd,rthd->rht", q, k) / jnp.sqrt(q.shape[-1])
    s = jnp.where(jnp.arange(k.shape[1])[None, None, :] < n[:, None, None], s, -jnp.inf)
    lse = jax.nn.logsumexp(s, axis=-1)
    return jnp.einsum("rht,rthd->rhd", jnp.exp(s - lse[..., None]), v), lse


@jax.jit
def cascade(q, prompt_k, prompt_v, own_k, own_v, own_len):
    """Decode attention of R samples.

    q: (R, H, D), the newest token of every sample.
    prompt_k, prompt_v: (P, H, D), common to all.
    own_k, own_v: (R, T, H, D), the generated tokens of each sample, the newest included;
    own_len: (R,) int, how many of the T are in use (at least 1).
    Returns (R, H, D): softmax over prompt and own tokens together, logits / sqrt(D).
    """
    o1, l1 = partial_prompt(q, prompt_k, prompt_v)
    o2, l2 = partial_suffix(q, own_k, own_v, own_len)
    w1 = jax.nn.sigmoid(l1 - l2)[..., None]
    return w1 * o1 + (1.0 - w1) * o2
