import numpy as np


def _fold(run, block_s, block_v):
    m, z, acc = run
    m2 = np.maximum(m, block_s.max(-1))
    safe = np.where(np.isneginf(m2), 0.0, m2)
    shrink = np.exp(m - safe)
    w = np.exp(block_s - safe[..., None])
    return m2, z * shrink + w.sum(-1), acc * shrink[..., None] + w @ block_v


def scan_catalogue(needle, tags, goods, stock, block=3):
    """One pass over a catalogue too large to score at once.

    needle (B, H, T, d), tags (B, H, S, d), goods (B, H, S, e); stock (B, S) bool, True = in stock;
    only items in stock count. Blocks of `block` items. No stock at all gives zeros.
    """
    B, H, T, d = needle.shape
    run = (np.full((B, H, T), -np.inf), np.zeros((B, H, T)), np.zeros((B, H, T, goods.shape[-1])))
    for lo in range(0, tags.shape[2], block):
        sl = slice(lo, lo + block)
        s = needle @ np.swapaxes(tags[:, :, sl], -1, -2) / np.sqrt(d)
        s = np.where(stock[:, None, None, sl], s, -np.inf)
        run = _fold(run, s, goods[:, :, sl])
    _, z, acc = run
    return acc / np.where(z == 0, 1.0, z)[..., None]
