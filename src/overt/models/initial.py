"""Fresh parameters for training, from nothing but their names and shapes."""

from __future__ import annotations

from collections.abc import Mapping
from math import sqrt

import numpy as np

from overt.errors import ArgumentError

Shapes = dict[str, tuple[int, ...]]


def check_sizes(**sizes: int) -> None:
    """Raise ArgumentError for a size that is no whole number of at least 1."""
    for name, value in sizes.items():
        if isinstance(value, bool) or not isinstance(value, int) or value < 1:
            raise ArgumentError(f"{name} must be a whole number of at least 1, not {value!r:.40}")


def dense(name: str, rows: int, columns: int) -> Shapes:
    """Weight and bias of a linear map."""
    return {f"{name}_weight": (rows, columns), f"{name}_bias": (rows,)}


def norm(name: str, width: int) -> Shapes:
    """Scale and offset of a layer norm."""
    return {f"{name}.scale": (width,), f"{name}.offset": (width,)}


def attention_shapes(name: str, width: int) -> Shapes:
    """Attention with as many key heads as query heads, and the norm behind it."""
    found: Shapes = {}
    for role in ("query", "key", "value", "output"):
        found |= dense(f"{name}.{role}", width, width)
    return found | norm(f"{name}_norm", width)


def feed_forward_shapes(name: str, width: int, inner: int) -> Shapes:
    """A feed-forward part and the norm behind it."""
    found = dense(f"{name}.inner", inner, width) | dense(f"{name}.outer", width, inner)
    return found | norm(f"{name}_norm", width)


def initial(shapes: Mapping[str, tuple[int, ...]], rng: np.random.Generator) -> dict[str, np.ndarray]:
    """float32 arrays of these shapes, drawn in this order.

    Weights are uniform with variance 2 / (rows + columns), Glorot & Bengio 2010, equation 16; embeddings are normal
    with variance 1 / columns; scales are 1, biases and offsets 0.
    """
    found = {}
    for name, shape in shapes.items():
        if name.endswith("_embedding"):
            array = rng.normal(0, 1 / sqrt(shape[-1]), shape)
        elif name.endswith("_weight"):
            bound = sqrt(6 / sum(shape))
            array = rng.uniform(-bound, bound, shape)
        else:
            array = np.full(shape, float(name.endswith("scale")))
        found[name] = array.astype(np.float32)
    return found
