"""Soup for everyone!

`ladle(spoons, broth, recipe, stale=None)` serves every spoon with its portion of broth.

spoons : array (tables, diners, taste)          who asks
broth  : array (tables, pots, taste)            what is there
recipe : dict of four square matrices 'ask', 'smell', 'pour', 'plate', each (taste, taste)
stale  : optional array (tables, pots), nonzero = this pot is off, nobody may be served from it.
         There is always one good pot on a table.
Returns the served plates (tables, diners, taste).

There are FOUR waiters. Waiter w handles the w-th quarter of the taste columns after 'ask',
'smell' and 'pour' were applied from the right; he compares the diners' asking with the smell
of the pots (divided by the root of his share of the taste columns), shares out one whole portion per
diner over the pots by the exponential rule, and pours. The four trays stand side by side and
go through 'plate'.
"""
import numpy as np

WAITERS = 4


def portions(hunger):
    """One whole portion for each row of hunger (last axis = pots)."""
    appetite = np.exp(hunger - np.max(hunger, axis=-1, keepdims=True))
    return appetite / np.sum(appetite, axis=-1, keepdims=True)


def ladle(spoons, broth, recipe, stale=None):
    wish = np.split(spoons @ recipe["ask"], WAITERS, axis=-1)
    smell = np.split(broth @ recipe["smell"], WAITERS, axis=-1)
    liquid = np.split(broth @ recipe["pour"], WAITERS, axis=-1)

    trays = []
    for want, nose, soup in zip(wish, smell, liquid):
        hunger = np.matmul(want, np.swapaxes(nose, -1, -2)) / np.sqrt(want.shape[-1])
        if stale is not None:
            hunger = np.where(np.asarray(stale)[:, None, :] != 0, -np.inf, hunger)
        trays.append(portions(hunger) @ soup)
    return np.concatenate(trays, axis=-1) @ recipe["plate"]


def open_kitchen(taste=16, seed=7):
    rng = np.random.default_rng(seed)
    return {n: rng.standard_normal((taste, taste)) / np.sqrt(taste) for n in ("ask", "smell", "pour", "plate")}
