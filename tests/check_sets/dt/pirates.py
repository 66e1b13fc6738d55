"""Ahoy. Pirates on a rope ladder pass rumours downwards.

yarn(treasure, parrots, rum, nose) -> what each pirate believes, (ships, crew, casks)

    treasure (ships, crew, teeth)   what a pirate wants to know
    parrots  (ships, crew, teeth)   what a pirate's parrot shouts
    rum      (ships, crew, casks)   what a pirate can tell
    nose     int >= 1: pirate i hears exactly the `nose` pirates i-nose+1, ..., i, so he himself
             is one of them (nose = 1: he hears only his own parrot). Near the top of the
             ladder there are fewer. Nobody hears a pirate below him (index greater than i).

How much i believes j: shout = treasure_i . parrots_j / sqrt(teeth), turned into shares of one
over all pirates that i hears.
"""
import jax
import jax.numpy as jnp


def earshot(crew, nose):
    i = jnp.arange(crew)[:, None]
    j = jnp.arange(crew)[None, :]
    behind = i - j
    return (behind >= 0) & (behind <= nose)


def shares(shout, heard):
    shout = jnp.where(heard, shout, -jnp.inf)
    loud = jnp.max(shout, axis=-1, keepdims=True)
    grog = jnp.exp(shout - loud)
    return grog / grog.sum(-1, keepdims=True)


def yarn(treasure, parrots, rum, nose):
    teeth = treasure.shape[-1]
    shout = jnp.einsum("sit,sjt->sij", treasure, parrots) / jnp.sqrt(teeth)
    belief = shares(shout, earshot(treasure.shape[1], nose))
    return jnp.einsum("sij,sjc->sic", belief, rum)


def voyage(logbook, maps, nose=3):
    """Several nights: maps is a list of (W_treasure, W_parrot, W_rum), each (teeth, teeth)."""
    for wt, wp, wr in maps:
        logbook = logbook + yarn(logbook @ wt, logbook @ wp, logbook @ wr, nose)
    return logbook


fast_yarn = jax.jit(yarn, static_argnums=3)
