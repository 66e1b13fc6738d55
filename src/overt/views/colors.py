"""One scale of colours for all views: perceptually even, safe for the colour-blind, dark ink on light paper."""

from __future__ import annotations

import numpy as np

# Anchors from paper to ink; their CIELAB lightness falls evenly from 98 to 13, so that they also print in grey.
STOPS = ((250, 250, 247), (198, 211, 224), (142, 175, 202), (90, 137, 182), (56, 98, 160), (42, 60, 125), (32, 24, 80))
# From dark paper to light ink, as the page has them in the dark.
DARK = ((17, 20, 28), (25, 38, 70), (36, 68, 124), (58, 110, 176), (104, 160, 206), (170, 210, 230), (245, 251, 253))


def shades(x: np.ndarray, ramp: tuple[tuple[int, int, int], ...] = STOPS) -> np.ndarray:
    """Red, green and blue (…, 3), uint8, of numbers 0…1."""
    stops = np.array(ramp, np.float64)
    place = np.clip(x, 0, 1) * (len(stops) - 1)
    low = np.minimum(place.astype(int), len(stops) - 2)
    part = (place - low)[..., None]
    return np.rint(stops[low] * (1 - part) + stops[low + 1] * part).astype(np.uint8)


def scaled(weights: np.ndarray) -> tuple[np.ndarray, str, str, str]:
    """Weights as 0…1 for ``shades``, both ends as text, and "linear", or "logarithmic" where they span decades."""
    highest = float(weights.max(initial=0.0))
    some = weights[weights > 0]
    if not some.size:
        return np.zeros_like(weights), "0", "1", "linear"
    # A picture whose median is a hundredth of its maximum shows nothing on a linear scale.
    if float(np.median(some)) * 100 >= highest:
        return weights / highest, "0", f"{highest:.3g}", "linear"
    lowest = max(float(some.min()), highest * 1e-4)
    steps = np.log(highest / lowest)
    with np.errstate(divide="ignore"):
        level = np.where(weights > 0, np.clip(np.log(weights / lowest) / steps, 0.02, 1), 0)
    return level, f"{lowest:.1g}", f"{highest:.3g}", "logarithmic"
