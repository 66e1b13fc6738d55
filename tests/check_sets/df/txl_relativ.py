"""Transformer-XL: relative Aufmerksamkeit mit Gedaechtnis (Dai et al. 2019), nur Vorwaertspass."""
import numpy as np


def verschieben(x):
    """Spalte r steht fuer Abstand M+T-1-r; danach steht Spalte j fuer Abstand (M+i)-j."""
    H, T, S = x.shape
    x = np.concatenate([np.zeros((H, T, 1)), x], axis=2)
    return x.reshape(H, S + 1, T)[:, 1:].reshape(H, T, S)


def txl_schicht(w, mem, segment, mem_len):
    """segment (T, D), Gedaechtnis mem (M, D) -> Ausgabe (T, D), neues Gedaechtnis (<= mem_len, D).

    w: Wq, Wk, Wv, Wr, Wo (D, D); u, v (H, d).
    """
    T, D = segment.shape
    H, d = w["u"].shape
    alles = np.concatenate([mem, segment], axis=0)
    S = len(alles)

    koepfe = lambda z: z.reshape(len(z), H, d).transpose(1, 0, 2)
    q = koepfe(segment @ w["Wq"])
    k, val = koepfe(alles @ w["Wk"]), koepfe(alles @ w["Wv"])

    abstand = np.arange(S - 1, -1, -1.0)
    freq = 1.0 / 10000 ** (np.arange(0, D, 2) / D)
    winkel = abstand[:, None] * freq
    r = koepfe(np.concatenate([np.sin(winkel), np.cos(winkel)], axis=1) @ w["Wr"])

    inhalt = (q + w["u"][:, None]) @ k.transpose(0, 2, 1)
    lage = verschieben((q + w["v"][:, None]) @ r.transpose(0, 2, 1))
    s = (inhalt + lage) / np.sqrt(d)
    zukunft = np.triu(np.ones((T, S), dtype=bool), k=S - T + 1)
    s = np.where(zukunft, -np.inf, s)
    p = np.exp(s - s.max(-1, keepdims=True))
    p /= p.sum(-1, keepdims=True)
    y = (p @ val).transpose(1, 0, 2).reshape(T, D) @ w["Wo"]
    return segment + y, alles[-mem_len:]
