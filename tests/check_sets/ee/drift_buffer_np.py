"""Gyro drift estimate: attention over the last `size` samples, kept in a ring.

    ring = DriftBuffer(size, d, c)
    ring.push(k, v)            k (d,), v (c,): the newest sample; the oldest falls out
                               when more than `size` have been pushed
    y = ring.read(q)           q (d,) -> (c,)

read() is softmax(q . k_i / sqrt(d)) over ALL the samples still remembered, i.e. the last
min(pushed, size) ones (their order plays no part), and the mean of their v with
these weights.  Before the first push it returns zeros.
"""
import numpy as np


class DriftBuffer:
    def __init__(self, size, d, c):
        self.k = np.zeros((size, d))
        self.v = np.zeros((size, c))
        self.at = 0             # slot that is written next
        self.pushed = 0

    def push(self, k, v):
        self.k[self.at] = k
        self.v[self.at] = v
        self.pushed += 1
        self.at = self.pushed % len(self.k)

    def read(self, q):
        if self.pushed == 0:
            return np.zeros(self.v.shape[1])
        full = self.at or len(self.k)
        k, v = self.k[:full], self.v[:full]
        x = k @ q / np.sqrt(len(q))
        w = np.exp(x - x.max())
        return w @ v / w.sum()


if __name__ == "__main__":
    g = np.random.default_rng(0)
    ring = DriftBuffer(4, 3, 2)
    for _ in range(6):
        ring.push(g.normal(size=3), g.normal(size=2))
    print(ring.read(g.normal(size=3)))
