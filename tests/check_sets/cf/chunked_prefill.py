# -*- coding: utf-8 -*-
"""
Chunked prefill, NumPy-Referenz zum CUDA-Kernel.

Ein Prompt wird in Stücken verarbeitet. ``prefill_chunk`` bekommt die Queries
eines Stücks (absolute Positionen start .. start+n-1) und den KV-Cache mit allen
Tokens bis zum Ende dieses Stücks. Kausal: Position i sieht die Schlüssel 0..i.
Gerechnet wird kachelweise mit laufendem Maximum (online softmax), die volle
Score-Matrix entsteht nie.

Gruppierte Köpfe: Query-Kopf h liest KV-Kopf h // (Hq // Hkv).
"""
import numpy as np


def prefill_chunk(q, k_cache, v_cache, start, tile=16):
    # q        (Hq, n, d)
    # k_cache  (Hkv, start + n, d)
    # v_cache  (Hkv, start + n, dv)
    hq, n, d = q.shape
    hkv, total, _ = k_cache.shape
    if total != start + n or v_cache.shape[1] != total:
        raise ValueError("Cache passt nicht zu start + n")
    group = hq // hkv
    out = np.empty((hq, n, v_cache.shape[2]), dtype=q.dtype)
    row_pos = start + np.arange(n)

    for h in range(hq):
        K = k_cache[h // group].astype(np.float64)
        V = v_cache[h // group].astype(np.float64)
        Q = q[h].astype(np.float64) / np.sqrt(d)

        m = np.full((n, 1), -np.inf)
        l = np.zeros((n, 1))
        acc = np.zeros((n, V.shape[1]))
        for lo in range(0, total, tile):
            hi = min(lo + tile, total)
            if lo > row_pos[-1]:
                break
            s = Q @ K[lo:hi].T
            visible = np.arange(lo, hi)[None, :] <= row_pos[:, None]
            s = np.where(visible, s, -np.inf)

            # Kachel 0 enthält Schlüssel 0, den jede Zeile sieht: m ist
            # daher ab der ersten Kachel endlich.
            m_neu = np.maximum(m, s.max(axis=1, keepdims=True))
            p = np.exp(s - m_neu)
            alpha = np.exp(m - m_neu)
            l = alpha * l + p.sum(axis=1, keepdims=True)
            acc = alpha * acc + p @ V[lo:hi]
            m = m_neu
        out[h] = acc / l
    return out


def prefill(q, k, v, chunk=32, tile=16):
    """Ganzer Prompt, Stück für Stück; Formen wie oben, ohne Cache-Vorlauf."""
    teile = []
    for start in range(0, q.shape[1], chunk):
        end = min(start + chunk, q.shape[1])
        teile.append(prefill_chunk(q[:, start:end], k[:, :end], v[:, :end],
                                   start, tile=tile))
    return np.concatenate(teile, axis=1)


if __name__ == "__main__":
    rng = np.random.default_rng(1)
    q = rng.normal(size=(4, 70, 8)).astype(np.float32)
    k = rng.normal(size=(2, 70, 8)).astype(np.float32)
    v = rng.normal(size=(2, 70, 8)).astype(np.float32)
    print(prefill(q, k, v).shape)
