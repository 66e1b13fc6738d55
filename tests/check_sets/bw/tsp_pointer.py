"""Pointer decoder for TSP (Bello et al. 2016 / Kool et al. 2019), NumPy inference.

At each step a context query makes one multi-head "glimpse" over the unvisited
cities and the result points to the next city. The pointer logits are clipped,
C * tanh(u), before the visited cities are removed.
"""
import numpy as np


def masked_softmax(x, hide):
    x = np.where(hide, -np.inf, x)
    x = x - np.max(x, axis=-1, keepdims=True)
    p = np.exp(x)
    return p / np.sum(p, axis=-1, keepdims=True)


class PointerDecoder:
    def __init__(self, dim=16, heads=4, clip=10.0, rng=None):
        rng = rng or np.random.default_rng(0)
        self.dim, self.heads, self.clip = dim, heads, clip
        w = lambda i, o: rng.uniform(-1, 1, (i, o)) / np.sqrt(i)
        self.embed = w(2, dim)
        self.ctx = w(3 * dim, dim)
        self.k_g, self.v_g, self.out_g = w(dim, dim), w(dim, dim), w(dim, dim)
        self.k_p = w(dim, dim)
        self.placeholder = rng.uniform(-1, 1, 2 * dim)

    def precompute(self, xy):
        """xy: [B, N, 2] coordinates in the unit square."""
        h = np.tanh(xy @ self.embed)
        B, N, D = h.shape
        heads = lambda t: t.reshape(B, N, self.heads, D // self.heads)
        return dict(h=h, graph=h.mean(1), kg=heads(h @ self.k_g), vg=heads(h @ self.v_g),
                    kp=h @ self.k_p)

    def step(self, mem, first, last, visited):
        """first/last: [B] city ids or None, visited: [B, N] bool.
        Returns the distribution over the next city, [B, N]."""
        B, N, D = mem["h"].shape
        rows = np.arange(B)
        if first is None:
            ends = np.broadcast_to(self.placeholder, (B, 2 * D))
        else:
            ends = np.concatenate([mem["h"][rows, first], mem["h"][rows, last]], -1)
        q = np.concatenate([mem["graph"], ends], -1) @ self.ctx

        dh = D // self.heads
        u = np.einsum("bhd,bnhd->bhn", q.reshape(B, self.heads, dh), mem["kg"]) / np.sqrt(dh)
        a = masked_softmax(u, visited[:, None, :])
        glimpse = np.einsum("bhn,bnhd->bhd", a, mem["vg"]).reshape(B, D) @ self.out_g

        u = np.einsum("bd,bnd->bn", glimpse, mem["kp"]) / np.sqrt(D)
        return masked_softmax(self.clip * np.tanh(u), visited)

    def greedy(self, xy):
        B, N, _ = xy.shape
        mem = self.precompute(xy)
        visited = np.zeros((B, N), bool)
        first = last = None
        tour = []
        for _ in range(N):
            p = self.step(mem, first, last, visited)
            last = p.argmax(-1)
            first = last if first is None else first
            visited[np.arange(B), last] = True
            tour.append(last)
        return np.stack(tour, 1)


def tour_length(xy, tour):
    path = np.take_along_axis(xy, tour[..., None], axis=1)
    return np.linalg.norm(path - np.roll(path, -1, axis=1), axis=-1).sum(1)


if __name__ == "__main__":
    pts = np.random.default_rng(3).random((2, 8, 2))
    t = PointerDecoder().greedy(pts)
    print(t, tour_length(pts, t))
