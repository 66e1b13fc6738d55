"""Counting varves (yearly lake-bed laminae) from a core scanner.

A scan has up to a million lines, so keys are read tile by tile and nothing
of size queries x lines is ever held.
"""
import numpy as np


class RunningSoftmax:
    """Numerator, denominator and maximum of a softmax whose keys come in tiles."""

    def __init__(self, n_rows, n_cols, dtype):
        self.num = np.zeros((n_rows, n_cols), dtype)
        self.den = np.zeros((n_rows, 1), dtype)
        self.top = np.full((n_rows, 1), -np.inf, dtype)

    def feed(self, scores, values):
        top = np.maximum(self.top, scores.max(1, keepdims=True))
        safe = np.where(np.isfinite(top), top, 0)
        shrink = np.exp(self.top - safe)
        e = np.exp(scores - safe)
        self.num = self.num * shrink + e @ values
        self.den = self.den * shrink + e.sum(1, keepdims=True)
        self.top = top

    def result(self):
        return np.divide(self.num, self.den, out=np.zeros_like(self.num), where=self.den > 0)


def tiles(n, size):
    for a in range(0, n, size):
        yield slice(a, min(a + size, n))


class LaminaReader:
    """Years ask, scan lines answer.

    read(years [Q, d], lines [N, d], grey [N, c], cracked [N] or None) -> [Q, c]
    cracked: True = the core is broken here, the line does not count.
    """

    def __init__(self, tile=64):
        self.tile = tile

    def read(self, years, lines, grey, cracked=None):
        d = years.shape[1]
        q = years * (1.0 / np.sqrt(d))
        run = RunningSoftmax(len(years), grey.shape[1], q.dtype)
        for t in tiles(len(lines), self.tile):
            s = q @ lines[t].T
            val = grey[t]
            if cracked is not None:
                ok = ~cracked[t]
                if not ok.any():
                    continue
                s, val = s[:, ok], val[ok]
            run.feed(s, val)
        return run.result()

    __call__ = read


def count_varves(profile, prominence=0.1):
    """Local maxima that stand out from both neighbours."""
    p = np.asarray(profile, float)
    mid = p[1:-1]
    return int(((mid - p[:-2] > prominence) & (mid - p[2:] > prominence)).sum())


if __name__ == "__main__":
    g = np.random.default_rng(1)
    out = LaminaReader(16)(g.normal(size=(5, 8)), g.normal(size=(100, 8)), g.normal(size=(100, 2)))
    print(out.shape, count_varves(out[:, 0]))
