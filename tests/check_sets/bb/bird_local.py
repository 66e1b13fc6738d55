"""Local attention over BirdNET embeddings (one vector each 3 s of the recording).

Vogelrufe sind kurz: jedes Segment schaut nur auf sich und die Vergangenheit.
"""
import numpy as np


class LocalAttention:
    """Kausal, Fenster `w`: Segment i sieht genau die w Segmente i-w+1 ... i
    (sich selbst eingerechnet; am Anfang entsprechend weniger).

    x (L, d) -> (L, d). Gerechnet wird in Stuecken, damit Nachtaufnahmen in den
    Speicher passen.
    """

    def __init__(self, d, heads=2, w=4, chunk=8, seed=0):
        g = np.random.default_rng(seed)
        self.h, self.w, self.chunk = heads, w, chunk
        self.Wq, self.Wk, self.Wv, self.Wo = (g.normal(0, d ** -0.5, (d, d)) for _ in range(4))

    def _heads(self, x):
        return x.reshape(len(x), self.h, -1).transpose(1, 0, 2)

    def __call__(self, x):
        L, d = x.shape
        q, k, v = (self._heads(x @ W) for W in (self.Wq, self.Wk, self.Wv))
        out = np.empty_like(q)
        for a in range(0, L, self.chunk):
            e = min(a + self.chunk, L)
            b = max(0, a - self.w)
            i = np.arange(a, e)[:, None]
            j = np.arange(b, e)[None, :]
            sichtbar = (j <= i) & (i - j <= self.w)
            s = q[:, a:e] @ k[:, b:e].transpose(0, 2, 1) / np.sqrt(q.shape[-1])
            s = np.where(sichtbar, s, -np.inf)
            s = np.exp(s - s.max(-1, keepdims=True))
            out[:, a:e] = s / s.sum(-1, keepdims=True) @ v[:, b:e]
        return out.transpose(1, 0, 2).reshape(L, d) @ self.Wo


def rms(x):
    return x / np.sqrt((x ** 2).mean(-1, keepdims=True) + 1e-6)


class CallDetector:
    def __init__(self, d=32, species=("Amsel", "Kohlmeise", "Zilpzalp"), seed=1):
        g = np.random.default_rng(seed)
        self.species = species
        self.att = [LocalAttention(d, seed=seed + i) for i in range(2)]
        self.W = g.normal(0, d ** -0.5, (d, len(species)))

    def __call__(self, emb):
        for a in self.att:
            emb = emb + a(rms(emb))
        return 1 / (1 + np.exp(-rms(emb) @ self.W))

    def events(self, emb, thr=0.6, hop=3.0):
        p = self(emb)
        return [(round(t * hop, 1), self.species[s], float(p[t, s]))
                for t, s in zip(*np.nonzero(p > thr))]


if __name__ == "__main__":
    emb = np.random.default_rng(2).normal(size=(40, 32))
    for ev in CallDetector().events(emb)[:5]:
        print(*ev)
