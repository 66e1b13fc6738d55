"""
Logbook memory of an automated lighthouse
=========================================

External memory with content addressing as in the Neural Turing Machine (Graves et
al. 2014, eq. 5):

    w_r(i) = exp(beta_r K[k_r, M_i]) / sum_j exp(beta_r K[k_r, M_j])

where K is the cosine similarity and beta_r > 0 the key strength of read head r, which
the controller emits.  There is no 1/sqrt(d): a cosine does not grow with d, and beta
does the scaling.  Cells never written are not read.
"""
import numpy as np


def softplus(x):
    return np.logaddexp(0.0, x)


def unit(x, eps=1e-12):
    return x / np.maximum(np.linalg.norm(x, axis=-1, keepdims=True), eps)


class LogbookMemory(object):

    def __init__(self, cells, width):
        self.M = np.zeros((cells, width))
        self.written = np.zeros(cells, dtype=bool)
        self._next = 0

    # ------------------------------------------------------------------ write
    def log(self, entry):
        """Write an entry into the next cell; the oldest is lost when full."""
        self.M[self._next] = entry
        self.written[self._next] = True
        self._next = (self._next + 1) % len(self.M)

    # ------------------------------------------------------------------- read
    def address(self, keys, strength):
        """keys (R, width), strength (R,) raw controller output -> weights (R, cells)"""
        beta = 1.0 + softplus(strength)
        z = beta[:, None] * (unit(keys) @ unit(self.M).T)
        z = np.where(self.written, z, -np.inf)
        z = z - z.max(axis=1, keepdims=True)
        e = np.exp(z)
        return e / e.sum(axis=1, keepdims=True)

    def read(self, keys, strength):
        """-> (R, width).  Zeros while the logbook is empty."""
        if not self.written.any():
            return np.zeros((len(keys), self.M.shape[1]))
        return self.address(keys, strength) @ self.M


def recall(entries, keys, strength, cells=16):
    """Fill a fresh logbook with `entries` (n, width) and read it."""
    entries = np.asarray(entries, dtype=float)
    book = LogbookMemory(cells, keys.shape[1])
    for e in entries:
        book.log(e)
    return book.read(keys, strength)


if __name__ == "__main__":
    r = np.random.default_rng(5)
    visibility = r.normal(size=(20, 6))
    print(recall(visibility, visibility[-3:], np.array([0.0, 2.0, 8.0])).round(2))
