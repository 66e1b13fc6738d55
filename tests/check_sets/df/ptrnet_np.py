"""Pointer network (Vinyals, Fortunato, Jaitly) on planar points: greedy tour with an additive pointer."""
import numpy as np


class PtrNet:
    def __init__(self, hid=16, seed=1):
        g = np.random.default_rng(seed)
        u = lambda *s: g.uniform(-0.5, 0.5, s)
        self.Wx, self.Wh, self.b = u(2, 4 * hid), u(hid, 4 * hid), np.zeros(4 * hid)
        self.Vx, self.Vh, self.c = u(2, 4 * hid), u(hid, 4 * hid), np.zeros(4 * hid)
        self.W1, self.W2, self.v = u(hid, hid), u(hid, hid), 2 * u(hid)

    @staticmethod
    def _lstm(x, h, c, Wx, Wh, b):
        i, f, o, g = np.split(x @ Wx + h @ Wh + b, 4, axis=-1)
        s = lambda z: 1 / (1 + np.exp(-z))
        c = s(f) * c + s(i) * np.tanh(g)
        return s(o) * np.tanh(c), c

    def point(self, d, E, visited):
        """d (B, hid) decoder state, E (B, n, hid) encodings, visited (B, n) bool -> (B, n)"""
        score = (E @ self.W1 + (d @ self.W2)[:, None]) @ self.v
        score = np.where(visited, -np.inf, score)
        p = np.exp(score - score.max(1, keepdims=True))
        return p / p.sum(1, keepdims=True)

    def __call__(self, pts):
        """pts (B, n, 2) -> tour (B, n) and the distributions (B, n, n) it was drawn from."""
        B, n, _ = pts.shape
        h = c = np.zeros((B, len(self.v)))
        E = []
        for t in range(n):
            h, c = self._lstm(pts[:, t], h, c, self.Wx, self.Wh, self.b)
            E.append(h)
        E = np.stack(E, 1)
        x, visited = np.zeros((B, 2)), np.zeros((B, n), bool)
        tour, dist = [], []
        for _ in range(n):
            h, c = self._lstm(x, h, c, self.Vx, self.Vh, self.c)
            p = self.point(h, E, visited)
            j = p.argmax(1)
            visited[np.arange(B), j] = True
            x = pts[np.arange(B), j]
            tour.append(j)
            dist.append(p)
        return np.stack(tour, 1), np.stack(dist, 1)
