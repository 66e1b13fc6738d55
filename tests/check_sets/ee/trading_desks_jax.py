"""Grouped-query attention on tick data (JAX). Many traders share a few research desks.

desk_vote(trader, note, call)
    trader  (T, N, d)   T ticks, N traders (query heads)
    note    (T, D, d)   D desks (key heads), N is a multiple of D
    call    (T, D, c)   values
returns (T, N, c)

Traders sit in order: the first N // D traders read desk 0, the next N // D read desk 1, and
so on.  At tick t a trader reads the notes of ticks 0..t of his desk, logits divided by
sqrt(d).  Wrap in jax.vmap for several instruments.
"""
import jax
import jax.numpy as jnp


def seat(desk, group):
    """(T, D, x) -> (T, D * group, x): one copy of the desk for each of its traders"""
    return jnp.tile(desk, (1, group, 1))


def past_only(T):
    t = jnp.arange(T)
    return t[:, None] >= t[None, :]


def desk_vote(trader, note, call):
    T, N, d = trader.shape
    group = N // note.shape[1]
    note, call = seat(note, group), seat(call, group)
    bid = jnp.einsum("tnd,snd->nts", trader, note) / jnp.sqrt(d).astype(trader.dtype)
    bid = jnp.where(past_only(T)[None], bid, jnp.finfo(bid.dtype).min)
    odds = jax.nn.softmax(bid, axis=-1)
    return jnp.einsum("nts,snc->tnc", odds, call)


if __name__ == "__main__":
    ks = jax.random.split(jax.random.key(0), 3)
    shapes = [(7, 6, 4), (7, 2, 4), (7, 2, 5)]
    print(desk_vote(*[jax.random.normal(k, s) for k, s in zip(ks, shapes)]).shape)
