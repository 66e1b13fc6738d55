"""How arrays lie: from the checker's axes to the candidate's and back."""

from __future__ import annotations

import numpy as np

# BHTD-BSD has one key head without an axis.
# Layouts of heads (B, H, T, D) and of flat widths (B, T, F).  B2 and 1 have one query per sample, without an axis.
HEADS = ("BHTD", "BTHD", "BTD", "TD", "TBD", "HTD", "THD", "TBHD", "BHTD-BSD", "DT", "BDT", "BD", "D", "1BD")
FLAT = ("BTD", "TBD", "TD", "DT", "BDT", "BD", "D", "1BD")
_BATCHED = ("BHTD", "BTHD", "BTD", "TBD", "TBHD", "BHTD-BSD", "BDT", "BD", "1BD")
_HEADED = ("BHTD", "BTHD", "HTD", "THD", "TBHD", "BHTD-BSD")


def sizes(layout: str, flat: bool) -> tuple[bool, bool, bool]:
    """Whether a layout has batch, heads and several queries."""
    return layout in _BATCHED, flat or layout in _HEADED, layout not in ("BD", "D", "1BD")


def give(x: np.ndarray, layout: str, query: bool = True) -> np.ndarray:
    """(B, H, T, D) or (B, T, F) in the candidate's layout; keys of one-query layouts keep their positions."""
    if x.ndim == 3:
        found = {"BTD": x, "TBD": x.swapaxes(0, 1), "TD": x[0], "DT": x[0].T, "BDT": x.swapaxes(1, 2)}
        found |= {"BD": x[:, 0], "D": x[0, 0]} if query else {"BD": x, "D": x[0]}
        found["1BD"] = x.swapaxes(0, 1)
    else:
        found = {
            "BHTD": x,
            "BHTD-BSD": x if query else x[:, 0],
            "BTHD": x.swapaxes(1, 2),
            "BTD": x[:, 0],
            "TD": x[0, 0],
            "DT": x[0, 0].T,
            "BDT": x[:, 0].swapaxes(1, 2),
            "TBD": x[:, 0].swapaxes(0, 1),
            "HTD": x[0],
            "THD": x[0].swapaxes(0, 1),
            "TBHD": x.transpose(2, 0, 1, 3),
        }
        found |= {"BD": x[:, 0, 0], "D": x[0, 0, 0]} if query else {"BD": x[:, 0], "D": x[0, 0]}
        found["1BD"] = x[:, 0].swapaxes(0, 1)
    return found[layout]


def take(y: np.ndarray, layout: str, like: tuple[int, ...]) -> np.ndarray | None:
    """The candidate's output as (B, H, T, E) or (B, T, F) of the shape ``like``; None where it does not fit."""
    if len(like) == 4:
        B, H, T, E = like
        shapes = {
            "BHTD": ((B, H, T, E), (0, 1, 2, 3)),
            "BHTD-BSD": ((B, H, T, E), None),
            "BTHD": ((B, T, H, E), (0, 2, 1, 3)),
            "BTD": ((B, T, E), None),
            "TD": ((T, E), None),
            "DT": ((E, T), (1, 0)),
            "BDT": ((B, E, T), (0, 2, 1)),
            "TBD": ((T, B, E), (1, 0, 2)),
            "HTD": ((H, T, E), None),
            "THD": ((T, H, E), (1, 0, 2)),
            "TBHD": ((T, B, H, E), (1, 2, 0, 3)),
            "BD": ((B, E), None),
            "1BD": ((T, B, E), (1, 0, 2)),
            "D": ((E,), None),
        }
        shape, axes = shapes[layout]
        if y.shape == shape:
            return (y if axes is None else y.transpose(axes)).reshape(like)
        if layout in ("BHTD", "BTHD") and y.shape == (B, T, H * E):
            # Heads come in and a flat width comes out.
            return y.reshape(B, T, H, E).swapaxes(1, 2)
        if layout in ("HTD", "THD") and y.shape == (T, H * E):
            return y.reshape(T, H, E).swapaxes(0, 1)[None]
    else:
        B, T, F = like
        flat = {
            "BTD": ((B, T, F), None),
            "TBD": ((T, B, F), (1, 0, 2)),
            "TD": ((T, F), None),
            "DT": ((F, T), (1, 0)),
            "BDT": ((B, F, T), (0, 2, 1)),
            "BD": ((B, F), None),
            "1BD": ((T, B, F), (1, 0, 2)),
            "D": ((F,), None),
        }
        shape, axes = flat[layout]
        if y.shape == shape:
            return (y if axes is None else y.transpose(axes)).reshape(like)
    if layout in ("BD", "D", "TD", "1BD") and y.ndim > 1 and 1 in y.shape and y.size == int(np.prod(like)):
        # One query, or one sample, may keep an axis of 1.
        return y.reshape(like)
    return None


def take_weights(w: np.ndarray, layout: str, like: tuple[int, ...]) -> tuple[np.ndarray, str] | None:
    """Returned weights against (B, H, T, S): as (B, H, T, S), or their mean over heads as (B, 1, T, S)."""
    B, H, T, S = like
    for shape, axes in (
        ((B, H, T, S), None),
        ((B, T, H, S), (0, 2, 1, 3)),
    ):
        if w.shape == shape:
            return (w if axes is None else w.transpose(axes)), "each head"
    if (
        w.size == B * H * T * S
        and w.shape[-1] == S
        and w.shape[-2:] == (T, S)
        and (B == 1 or H == 1 or w.shape[0] == B * H)
    ):
        return w.reshape(like), "each head"
    if w.size == B * H * T * S and T == 1 and (H == 1 or B == 1):
        return w.reshape(like), "each head"
    if w.shape == (B, T, S) or (B == 1 and w.shape == (T, S)):
        return w.reshape(B, 1, T, S), "mean of heads"
    return None
