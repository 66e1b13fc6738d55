"""auger_window.py

Torque log of a tunnel-boring auger.  For every sample: multi-head attention over
the WINDOW newest samples, the sample itself being one of them (WINDOW = 1 would be
the sample alone).  Usual scale, one over the root of the head's width.
"""
import numpy as np

WINDOW = 4
HEADS = 2


class Spalte:                                   # one column of the log, as in the sheet
    def __init__(self, name, einheit, werte):
        self.name, self.einheit = name, einheit
        self.werte = np.asarray(werte, dtype=float)

    def norm(self):
        s = self.werte.std()
        return (self.werte - self.werte.mean()) / (s if s > 0 else 1.0)


def blatt(*spalten):
    return np.stack([s.norm() for s in spalten], axis=1)


def lag_matrix(n):
    t = np.arange(n)
    return t[:, None] - t[None, :]


def stable_softmax(a):
    e = np.exp(a - a.max(axis=-1, keepdims=True))
    return e / e.sum(axis=-1, keepdims=True)


class AugerAttention:
    def __init__(self, width, heads=HEADS, window=WINDOW, seed=0):
        rng = np.random.default_rng(seed)
        self.heads, self.window, self.width = heads, window, width
        self.W = {n: rng.normal(size=(width, width)) / np.sqrt(width) for n in "qkvo"}

    def allowed(self, n):
        lag = lag_matrix(n)
        return (lag >= 0) & (lag <= self.window)

    def heads_first(self, x):
        return x.reshape(x.shape[0], self.heads, -1).transpose(1, 0, 2)

    def forward(self, x):
        """x (n, width) -> (n, width)"""
        q, k, v = (self.heads_first(x @ self.W[n]) for n in "qkv")
        scores = q @ k.transpose(0, 2, 1) / np.sqrt(self.width)
        scores = np.where(self.allowed(len(x)), scores, -np.inf)
        y = stable_softmax(scores) @ v
        return y.transpose(1, 0, 2).reshape(x.shape) @ self.W["o"]

    __call__ = forward


def boulder_alarm(attention, log, readout, limit=2.0):
    z = (log + attention(log)) @ readout
    return np.flatnonzero(np.abs(z) > limit)


if __name__ == "__main__":
    g = np.random.default_rng(3)
    log = blatt(Spalte("Moment", "kNm", g.normal(size=20)), Spalte("Vorschub", "mm/min", g.normal(size=20)),
                Spalte("Druck", "bar", g.normal(size=20)), Spalte("Drehzahl", "1/min", g.normal(size=20)))
    print(boulder_alarm(AugerAttention(4), log, g.normal(size=4)))
