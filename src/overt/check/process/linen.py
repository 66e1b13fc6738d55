"""Modules of Flax, whose weights, and what they keep from call to call, are given to each call."""

from __future__ import annotations

import sys
from collections.abc import Callable
from functools import partial
from typing import Any

import numpy as np

from overt.check.process.arrays import Backend
from overt.check.process.giving import drawn


def is_linen(cls: Any) -> bool:
    """Whether a class is a module of Flax whose weights are given to each call."""
    return any(base.__module__.startswith("flax.linen") for base in cls.__mro__)


def applied(
    thing: Any,
    name: str,
    args: Any,
    kwargs: dict[str, Any],
    backend: Backend,
    made: dict[str, Any],
    kept: dict[str, Any],
) -> tuple[Callable[..., Any], bool]:
    """A module as a function, with weights of its own, and whether it keeps something from call to call.

    made: weights that were made, by what is called how; kept: collections that earlier calls have changed.
    """
    jax = sys.modules["jax"]
    if str(getattr(thing, "dtype", None) and np.dtype(thing.dtype)) in ("bfloat16", "float16"):
        # How it computes is seen in more digits.
        thing = thing.clone(dtype=jax.numpy.float32)
    keys = {one: jax.random.PRNGKey(n) for n, one in enumerate(("params", "dropout"))}
    like = repr(
        (thing, name, jax.tree_util.tree_map(lambda x: (np.shape(x), str(getattr(x, "dtype", x))), [args, kwargs]))
    )
    if like not in made:
        first = backend.run(partial(thing.init, method=name), [keys, *args], kwargs, {}, False)
        made[like] = {one: drawn(x, np.random.default_rng(0)) if one == "params" else x for one, x in first.items()}
    weights = made[like]
    state = [one for one in weights if one != "params"]

    def call(*args: Any, **kwargs: Any) -> Any:
        more = {"method": name, "rngs": {"dropout": keys["dropout"]}, **kwargs}
        if not state:
            return thing.apply(weights, *args, **more)
        result, changed = thing.apply({**weights, **kept}, *args, mutable=state, **more)
        if not any(isinstance(x, jax.core.Tracer) for x in jax.tree_util.tree_leaves(changed)):
            # What is only traced has no numbers to keep.
            kept.update(changed)
        return result

    return call, bool(state)
