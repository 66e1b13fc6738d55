"""Completion of tasting notes (winery laboratory), JAX.

A modern Hopfield memory: stored profiles M (n, d), a partial profile x.  Each
round replaces x by

    x <- softmax(beta * x M^T) M        (softmax over the n stored profiles)

so beta takes the place of 1/sqrt(d).  It stops after `rounds` rounds.  Several
partial profiles are completed at once; a memory may be switched off by `live`.
"""
from dataclasses import dataclass
from functools import partial

import jax
import jax.numpy as jnp


@dataclass(frozen=True)
class MemoryConfig:
    beta: float = 4.0
    rounds: int = 3


def retrieve(memory, live, x, beta):
    energy = beta * (x @ memory.T)
    energy = jnp.where(live[None, :], energy, -jnp.inf)
    return jax.nn.softmax(energy, axis=-1) @ memory


@partial(jax.jit, static_argnames=("cfg",))
def complete_notes(memory, partial_notes, live=None, cfg=MemoryConfig()):
    """memory (n, d), partial_notes (m, d), live (n,) bool -> (m, d)"""
    if live is None:
        live = jnp.ones(memory.shape[0], bool)

    def body(x, _):
        return retrieve(memory, live, x, cfg.beta), None

    x, _ = jax.lax.scan(body, partial_notes, None, length=cfg.rounds)
    return x


if __name__ == "__main__":
    key = jax.random.PRNGKey(0)
    wines = jax.random.normal(key, (12, 6))
    noisy = wines[:3].at[:, 4:].set(0.0)
    print(jnp.round(complete_notes(wines, noisy) - wines[:3], 2))
