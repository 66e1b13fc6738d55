"""Where a token stands: encodings added to inputs, rotations of queries and keys, slopes for ALiBi."""

from __future__ import annotations

from typing import Any, Literal

import numpy as np
from array_api_compat import array_namespace, is_array_api_obj

from overt.errors import ArgumentError, DtypeError, ShapeError
from overt.grid import (
    Array,
    ArrayT,
    broadcasts,
    dtype_name,
    host,
    integers,
    is_elsewhere,
    is_float,
    is_number,
    kind,
    plain,
    shown,
    whole,
)

Layout = Literal["half", "interleaved"]


def sinusoidal(positions: int | Array, width: int, *, base: float = 10_000.0) -> np.ndarray:
    """Fixed encoding: column 2i is sin(p / base^(2i/width)), column 2i + 1 its cosine.

    positions: a count T for 0…T−1, or an integer array (…, T) → (…, T, width), float64.
    An odd width drops the last cosine.  Vaswani et al. 2017, section 3.5.
    """
    count = isinstance(positions, int | np.integer)
    points = np.arange(whole("positions", positions)) if count else integers("positions", positions)
    even = whole("width", width) + width % 2
    angles = points[..., None] * _frequencies(even, base)
    return np.stack([np.sin(angles), np.cos(angles)], axis=-1).reshape(*points.shape, even)[..., :width]


def learned(table: ArrayT, positions: int | Array) -> ArrayT:
    """Rows of a learned table (N, width): a count T for rows 0…T−1, or an integer array (…, T) → (…, T, width).

    Phuong & Hutter 2022, Algorithm 2.
    """
    table = plain("table", table)
    xp = _namespace("table", table)
    if table.ndim != 2:
        raise ShapeError(f"the table has shape {tuple(table.shape)}: give one row per position, (N, width)")
    count = isinstance(positions, int | np.integer)
    points = np.arange(whole("positions", positions)) if count else integers("positions", positions)
    # Of a device that would be a number to be read back; there torch refuses what is beyond.
    if not is_elsewhere(points) and points.size and (points.min() < 0 or points.max() >= table.shape[0]):
        raise ArgumentError(
            f"positions {points.min()}…{points.max()} do not fit a table of {table.shape[0]} rows: "
            "shorten the input or train a longer table"
        )
    flat = xp.take(table, xp.asarray(points.reshape(-1), device=table.device), axis=0)
    return xp.reshape(flat, (*points.shape, table.shape[1]))


def rope(
    x: ArrayT, positions: int | Array = 0, *, layout: Layout, base: float = 10_000.0, width: int | None = None
) -> ArrayT:
    """Rotate pairs of features of x (…, T, D) by angles that grow with the position; the dtype of x comes back.

    positions: the first position (an offset), or an integer array that broadcasts to (…, T) without x's head axis:
    (T,), or (B, T) for x (B, H, T, D).  layout: "half" pairs feature i with i + width/2 (GPT-NeoX, Llama in
    transformers); "interleaved" pairs 2i with 2i + 1 (the paper, GPT-J).  width: rotate only the first ``width``
    features.  Su et al. 2021 (arXiv:2104.09864), equation 34.
    """
    if layout not in ("half", "interleaved"):
        raise ArgumentError(f'rope layout must be "half" or "interleaved", not {shown(layout)}')
    x = plain("x", x)
    xp = _namespace("x", x)
    if x.ndim < 2:
        raise ShapeError(f"rope takes x (…, T, D), not shape {tuple(x.shape)}")
    T, D = x.shape[-2:]
    width = D if width is None else whole("width", width)
    if width > D or width % 2:
        raise ShapeError(f"rope rotates pairs: the width {width} must be even and at most D = {D}")
    if isinstance(positions, int | np.integer):
        points = integers("positions", positions) + np.arange(T)
    else:
        # Those that lie on a device are read back only for what does not.
        read = is_elsewhere(positions) and not is_elsewhere(x)
        points = integers("positions", host("positions", positions) if read else positions)
        if points.ndim == 0 or points.shape[-1] != T:
            raise ShapeError(
                f"positions have shape {tuple(points.shape)}, but x has {T} positions on axis -2: give (…, T)"
            )
        if points.ndim > 1:
            points = points[..., None, :]
    if not is_float(x):
        raise DtypeError(f"rope takes floats, not {dtype_name(x)}")
    wide = x if dtype_name(x) == "float64" else xp.astype(x, xp.float32)
    there: Any = np
    frequencies = _frequencies(width, base)
    if is_elsewhere(points):
        there, frequencies = xp, xp.asarray(frequencies, device=points.device)
    angles = points[..., None] * frequencies
    cos, sin = (xp.asarray(f(angles), dtype=wide.dtype, device=x.device) for f in (there.cos, there.sin))
    if layout == "half":
        first, second = wide[..., : width // 2], wide[..., width // 2 : width]
    else:
        first, second = wide[..., 0:width:2], wide[..., 1:width:2]
    rows = tuple(x.shape[:-1])
    if not broadcasts(points.shape, rows):
        raise ShapeError(
            f"positions {tuple(points.shape)} do not broadcast to x {tuple(x.shape)}: give (T,), or (B, T) for x "
            "(B, H, T, D)"
        )
    turned = first * cos - second * sin, first * sin + second * cos
    joined = xp.concat(turned, axis=-1) if layout == "half" else xp.stack(turned, axis=-1)
    joined = xp.reshape(joined, (*joined.shape[: x.ndim - 1], width))
    return xp.astype(xp.concat([joined, wide[..., width:]], axis=-1), x.dtype)


def alibi_slopes(heads: int) -> np.ndarray:
    """Slopes for ``overt.alibi``, (heads,), float32: 2^(−8/n), 2^(−16/n), … for n heads, a power of two.

    Other counts take the slopes of the power of two below, then every second one of the power above.
    Press et al. 2022 (arXiv:2108.12409), section 3 and their code.
    """
    heads = whole("heads", heads)
    if heads == 0:
        return np.zeros(0, np.float32)
    below = 1 << (heads.bit_length() - 1)
    slopes = 2.0 ** (-8.0 / below * np.arange(1, below + 1))
    between = 2.0 ** (-4.0 / below * np.arange(1, 2 * (heads - below) + 1, 2))
    return np.concatenate([slopes, between]).astype(np.float32)


def _namespace(name: str, x: Array) -> Any:
    if not is_array_api_obj(x):
        raise DtypeError(f"{name} is {kind(x)}, not an array: convert it with numpy.asarray({name})")
    return array_namespace(x)


def _frequencies(width: int, base: float) -> np.ndarray:
    if not (is_number(base) and 0 < base < np.inf):
        raise ArgumentError(f"base must be a positive number, not {shown(base)}")
    return base ** (-np.arange(0, width, 2) / max(width, 1))
