"""Sliding-window decode on a ring buffer, NumPy reference for the firmware team."""
import numpy as np


def slot_positions(now, capacity):
    """Absolute position stored in every slot when position ``now`` was written last.

    Position p lives in slot p % capacity.  Slots that have never been written get a
    negative number.
    """
    slot = np.arange(capacity)
    return now - (now - slot) % capacity


def ring_attend(q, k_ring, v_ring, now, window):
    """Attention of the newest token over the last ``window`` tokens.

    q        (H, d)      query of position ``now``
    k_ring   (C, H, d)   keys, position p in slot p % C; position ``now`` is already in
    v_ring   (C, H, d)   values, likewise
    window   int, window < C: number of tokens seen, the newest one INCLUDED (window=1:
             only itself)
    returns  (H, d)

    The rings are allocated once and not cleared: slots that were never written may
    hold anything, NaN and inf too, and must not influence the result.
    Scale 1/sqrt(d).
    """
    C, H, d = k_ring.shape
    pos = slot_positions(now, C)
    live = (pos >= 0) & (now - pos <= window)
    s = np.einsum("hd,chd->hc", q, k_ring) / np.sqrt(d)
    s = np.where(live[None, :], s, -np.inf)
    s = s - s.max(axis=1, keepdims=True)
    p = np.exp(s)
    p = p / p.sum(axis=1, keepdims=True)
    return np.einsum("hc,chd->hd", p, v_ring)


def ring_write(ring, x, now):
    """Put x (H, d) of position ``now`` in its slot."""
    ring[now % len(ring)] = x
