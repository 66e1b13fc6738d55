import numpy as np


def _strips(x, r):
    """(B, L, H, d) -> (B, L, 2r+1, H, d): for each place the places -r..r around it."""
    p = np.pad(x, ((0, 0), (r, r), (0, 0), (0, 0)))
    v = np.lib.stride_tricks.sliding_window_view(p, 2 * r + 1, axis=1)
    return np.moveaxis(v, -1, 2)


def neighbours_blend(song, ear, mouth, reach=2, skip=None):
    """Blend each song of a playlist with the songs at most `reach` places away on either side.

    song, ear, mouth : (B, L, H, d) query-, key- and value-like tables
    skip             : (B, L) bool or None, True = the listener skipped it, nobody reads it
    A song with nothing readable in reach gets zeros.
    """
    B, L, H, d = song.shape
    e = np.einsum("blhd,blwhd->blhw", song, _strips(ear, reach)) / np.sqrt(d)
    at = np.arange(L)[:, None] + np.arange(-reach, reach + 1)[None]
    ok = np.broadcast_to((at >= 0) & (at < L), (B,) + at.shape)
    if skip is not None:
        ok = ok & ~skip[:, at.clip(0, L - 1)]
    ok = ok[:, :, None, :]
    top = np.max(e, axis=-1, where=ok, initial=-np.inf, keepdims=True)
    top = np.where(np.isfinite(top), top, 0.0)
    w = np.exp(np.where(ok, e - top, -np.inf))
    tot = w.sum(-1, keepdims=True)
    w = np.divide(w, tot, out=np.zeros_like(w), where=tot > 0)
    return np.einsum("blhw,blwhd->blhd", w, _strips(mouth, reach))
