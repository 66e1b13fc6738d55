"""Normalisation over the features of each position."""

from __future__ import annotations

from overt.grid import Array, ArrayT, plain
from overt.layers.namespace import array_namespace
from overt.layers.parameters import Parameters


def layer_norm(x: ArrayT, scale: Array, offset: Array, epsilon: float = 1e-5) -> ArrayT:
    """(x − mean) / √(variance + ε) · scale + offset over the last axis.  Algorithm 6."""
    xp = array_namespace(x)
    plain("scale", scale)
    plain("offset", offset)
    alike = x.dtype == scale.dtype == offset.dtype and scale.shape == offset.shape == x.shape[-1:]
    if alike and hasattr(xp, "layer_norm"):
        # torch's own is one step, as is its gradient.
        return xp.layer_norm(x, (x.shape[-1],), scale, offset, epsilon)
    centred = x - xp.mean(x, axis=-1, keepdims=True)
    variance = xp.mean(centred * centred, axis=-1, keepdims=True)
    return centred / xp.sqrt(variance + epsilon) * scale + offset


def normalize(x: ArrayT, parameters: Parameters) -> ArrayT:
    """``layer_norm`` of x (…, D) by the parameters scale (D,) and offset (D,)."""
    return layer_norm(x, parameters["scale"], parameters["offset"])
