"""Neural Turing Machine: Adressierung des Kopfes (Graves et al. 2014, Abschnitt 3.3)."""
import numpy as np


def aehnlich(k, M, eps=1e-8):
    """Kosinus von k (B, W) mit jeder Zeile von M (B, N, W) -> (B, N)"""
    oben = np.einsum("bw,bnw->bn", k, M)
    unten = np.linalg.norm(k, axis=-1, keepdims=True) * np.linalg.norm(M, axis=-1)
    return oben / (unten + eps)


def richte(M, k, beta, g, s, gamma, w_alt):
    """
    M (B, N, W) Speicher, k (B, W) Schluessel, beta (B, 1) > 0 Staerke, g (B, 1) in (0, 1),
    s (B, 3) Verteilung ueber die Verschiebungen -1, 0, +1, gamma (B, 1) >= 1,
    w_alt (B, N) Gewichte des vorigen Schritts.
    Gibt (w, r): neue Gewichte (B, N) und das Gelesene (B, W).
    """
    # (5) Inhalt
    z = beta * aehnlich(k, M)
    z = np.exp(z - z.max(axis=1, keepdims=True))
    wc = z / z.sum(axis=1, keepdims=True)
    # (7) mischen mit dem vorigen
    wg = g * wc + (1.0 - g) * w_alt
    # (8) w~(i) = sum_j wg(j) s(i - j)
    wv = s[:, 0:1] * np.roll(wg, -1, axis=1) + s[:, 1:2] * wg + s[:, 2:3] * np.roll(wg, 1, axis=1)
    # (9) schaerfen
    w = wv ** gamma
    w = w / w.sum(axis=1, keepdims=True)
    return w, np.einsum("bn,bnw->bw", w, M)
