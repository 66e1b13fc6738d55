"""Normalisierung alter Kochbuch-Rechtschreibung ("Eyer", "thun") - T5-Encoder in NumPy.

Besonderheiten von T5: die Scores werden NICHT durch sqrt(d) geteilt (die Skala steckt
in der Initialisierung), die Köpfe dürfen breiter sein als d_model / H, und eine Tabelle
mit logarithmischen Abstandsklassen wird auf die Scores addiert (beidseitig im Encoder).
"""
import math

import numpy as np


def abstandsklasse(rel, n_klassen=32, max_abstand=128):
    """rel = Schlüsselposition - Anfrageposition, beidseitige Fassung wie im Original."""
    halb = n_klassen // 2
    klasse = (rel > 0).astype(int) * halb
    n = np.abs(rel)
    genau = halb // 2
    gross = genau + (np.log(np.maximum(n, 1) / genau) / math.log(max_abstand / genau) * (halb - genau)).astype(int)
    gross = np.minimum(gross, halb - 1)
    return klasse + np.where(n < genau, n, gross)


def rms(x, w, eps=1e-6):
    return x / np.sqrt((x ** 2).mean(-1, keepdims=True) + eps) * w


def selbst_attention(x, P, H, maske=None):
    """x: [B, L, D]; P: q,k,v [D, H*d], o [H*d, D], bias [32, H]; maske: [B, L], 1 = Buchstabe, 0 = Auffüllung.

    Jede Zeile der Maske enthält mindestens eine 1.
    """
    B, L, _ = x.shape

    def teile(t):
        return t.reshape(B, L, H, -1).swapaxes(1, 2)

    q, k, v = teile(x @ P["q"]), teile(x @ P["k"]), teile(x @ P["v"])
    s = q @ k.swapaxes(-1, -2)
    pos = np.arange(L)
    s = s + P["bias"][abstandsklasse(pos[None, :] - pos[:, None])].transpose(2, 0, 1)
    if maske is not None:
        s = np.where(maske[:, None, None, :] != 0, s, np.finfo(s.dtype).min)
    s = s - s.max(-1, keepdims=True)
    e = np.exp(s)
    a = e / e.sum(-1, keepdims=True)
    return (a @ v).swapaxes(1, 2).reshape(B, L, -1) @ P["o"]


def encoder_block(x, P, H, maske=None):
    x = x + selbst_attention(rms(x, P["ln1"]), P, H, maske)
    h = np.maximum(rms(x, P["ln2"]) @ P["wi"], 0)
    return x + h @ P["wo"]


def zufallsparameter(D=16, H=2, d=12, F=32, seed=0):
    r = np.random.default_rng(seed)
    return {
        "q": r.normal(size=(D, H * d)) * (D * d) ** -0.5,
        "k": r.normal(size=(D, H * d)) * D ** -0.5,
        "v": r.normal(size=(D, H * d)) * D ** -0.5,
        "o": r.normal(size=(H * d, D)) * (H * d) ** -0.5,
        "bias": r.normal(size=(32, H)),
        "ln1": np.ones(D), "ln2": np.ones(D),
        "wi": r.normal(size=(D, F)) * D ** -0.5, "wo": r.normal(size=(F, D)) * F ** -0.5,
    }


if __name__ == "__main__":
    P = zufallsparameter()
    print(encoder_block(np.random.randn(2, 7, 16), P, 2, np.array([[1] * 7, [1] * 4 + [0] * 3])).shape)
