"""NumPy-Tagger fuer Arztbriefe (Medikament / Dosis / Diagnose), nur Vorwaertslauf.

Positionen ueber ALiBi (Press et al.): Kopf h = 1..n hat die Steigung 2^(-8 h / n),
der Abstand |i - j| wird damit multipliziert und vom Score abgezogen.
Kopfzahl immer Zweierpotenz.
"""
import numpy as np

MARKEN = ["O", "B-MED", "I-MED", "B-DOS", "I-DOS", "B-DIA", "I-DIA"]


def steigungen(n):
    return 2.0 ** (-8.0 * np.arange(n) / n)


class AlibiSelbst:
    def __init__(self, gewichte, koepfe):
        self.g = gewichte
        self.n = koepfe
        self.m = steigungen(koepfe)

    def kopf(self, x, name, h):
        W = self.g[name]
        d = W.shape[1] // self.n
        return x @ W[:, h * d:(h + 1) * d]

    def __call__(self, x):
        """x [T, D], ein Brief ohne Auffuellung; beidseitig"""
        T = x.shape[0]
        abstand = np.abs(np.arange(T)[:, None] - np.arange(T)[None, :])
        teile = []
        for h in range(self.n):
            q, k, v = (self.kopf(x, w, h) for w in ("Wq", "Wk", "Wv"))
            s = q @ k.T / np.sqrt(q.shape[1]) - self.m[h] * abstand
            s -= s.max(1, keepdims=True)
            e = np.exp(s)
            teile.append((e / e.sum(1, keepdims=True)) @ v)
        return np.concatenate(teile, axis=1) @ self.g["Wo"]


def ln(x, g, b):
    return (x - x.mean(1, keepdims=True)) / np.sqrt(x.var(1, keepdims=True) + 1e-5) * g + b


class Tagger:
    def __init__(self, npz, koepfe=4):
        self.emb = npz["emb"]
        self.schichten = []
        i = 0
        while "s%d.Wq" % i in npz:
            g = {k.split(".", 1)[1]: npz[k] for k in npz if k.startswith("s%d." % i)}
            self.schichten.append((AlibiSelbst(g, koepfe), g))
            i += 1
        self.aus = npz["aus"]

    def logits(self, ids):
        x = self.emb[ids]
        for att, g in self.schichten:
            x = x + att(ln(x, g["g1"], g["b1"]))
            x = x + np.maximum(ln(x, g["g2"], g["b2"]) @ g["F1"], 0) @ g["F2"]
        return x @ self.aus

    def __call__(self, ids):
        return [MARKEN[i] for i in self.logits(np.asarray(ids)).argmax(1)]


def spannen(marken):
    """BIO -> Liste (art, anfang, ende)"""
    aus, offen = [], None
    for i, m in enumerate(marken + ["O"]):
        if offen and not (m.startswith("I-") and m[2:] == offen[0]):
            aus.append((offen[0], offen[1], i))
            offen = None
        if m.startswith("B-"):
            offen = (m[2:], i)
    return aus
