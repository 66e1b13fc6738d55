"""Linear maps, embeddings, and the feed-forward part."""

from __future__ import annotations

from collections.abc import Callable

from overt.errors import ArgumentError, ShapeError
from overt.grid import Array, ArrayT, plain
from overt.layers.activations import relu
from overt.layers.namespace import array_namespace
from overt.layers.parameters import Parameters


def keep(x: ArrayT) -> ArrayT:
    """The dropout that drops nothing."""
    return x


def linear(x: ArrayT, weight: Array, bias: Array | None = None) -> ArrayT:
    """x weightᵀ + bias.  x (…, I), weight (O, I), bias (O,) → (…, O)."""
    xp = array_namespace(x)
    plain("weight", weight)
    plain("bias", bias)
    if x.shape[-1] != weight.shape[1]:
        raise ShapeError(f"x has width {x.shape[-1]} but the weight {tuple(weight.shape)} maps {weight.shape[1]}")
    # NumPy multiplies a stack of matrices one by one.
    rows = xp.reshape(x, (-1, x.shape[-1])) if x.ndim > 2 and x.shape[-1] else x
    columns = xp.matrix_transpose(weight)
    if bias is not None and rows.ndim == 2 and weight.dtype == bias.dtype and hasattr(xp, "addmm"):
        # torch adds while it multiplies.
        y = xp.addmm(bias, rows, columns)
    else:
        y = xp.matmul(rows, columns)
        y = y if bias is None else y + bias
    return xp.reshape(y, (*x.shape[:-1], weight.shape[0]))


def project(x: ArrayT, parameters: Parameters, name: str) -> ArrayT:
    """The linear map of this name: a function, or weight and bias."""
    if name in parameters:
        return parameters[name](x)
    return linear(x, parameters[f"{name}_weight"], parameters.get(f"{name}_bias"))


def embedding(table: Array, tokens: Array) -> Array:
    """Rows of a table: table (V, D), tokens (…, T) → (…, T, D).  Algorithm 1, token embedding."""
    xp = array_namespace(table, "table")
    plain("tokens", tokens)
    flat = xp.take(table, xp.reshape(tokens, (-1,)), axis=0)
    return xp.reshape(flat, (*tokens.shape, table.shape[1]))


def positional_embedding(table: Array, first: int, count: int) -> Array:
    """Rows first … first + count − 1 of a learned table (N, D).  Algorithm 2, positional embedding."""
    plain("table", table)
    if first < 0 or first + count > table.shape[0]:
        raise ArgumentError(
            f"positions {first}…{first + count - 1} do not fit a table of {table.shape[0]} rows: "
            "shorten the input or train a longer table"
        )
    return table[first : first + count, :]


def unembedding(x: ArrayT, table: Array) -> ArrayT:
    """Scores of every token of the vocabulary: x (…, D), table (V, D) → (…, V).

    Algorithm 7 without its softmax, which training and decoding take in the logarithm.
    """
    plain("table", table)
    return linear(x, table)


def feed_forward(
    x: ArrayT,
    parameters: Parameters,
    *,
    activation: Callable[[Array], Array] = relu,
    drop: Callable[[Array], Array] = keep,
) -> ArrayT:
    """inner_weight (F, D), inner_bias, activation, outer_weight (D, F), outer_bias, position by position."""
    return project(drop(activation(project(x, parameters, "inner"))), parameters, "outer")
