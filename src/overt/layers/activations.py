"""What acts on each number, or on each row of scores."""

from __future__ import annotations

from math import pi, sqrt

from overt.grid import ArrayT
from overt.layers.namespace import array_namespace


def softmax(x: ArrayT) -> ArrayT:
    """exp(x) / Σ exp(x) over the last axis, for any finite x."""
    xp = array_namespace(x)
    powers = xp.exp(x - xp.max(x, axis=-1, keepdims=True))
    return powers / xp.sum(powers, axis=-1, keepdims=True)


def relu(x: ArrayT) -> ArrayT:
    """max(x, 0)."""
    xp = array_namespace(x)
    # As with the norm.
    return xp.relu(x) if hasattr(xp, "relu") else xp.clip(x, min=0)


def gelu(x: ArrayT) -> ArrayT:
    """Gaussian error linear unit in its tanh form.  Hendrycks & Gimpel 2016 (arXiv:1606.08415), section 2."""
    xp = array_namespace(x)
    return 0.5 * x * (1 + xp.tanh(sqrt(2 / pi) * (x + 0.044715 * x**3)))


def sigmoid(x: ArrayT) -> ArrayT:
    """1 / (1 + exp(−x)), without overflow."""
    xp = array_namespace(x)
    return 0.5 * (xp.tanh(0.5 * x) + 1)
