"""Long-term memory of a support bot, spread over several disks.

A memory shard is a pair of memory-mapped arrays (keys, values).  A shard is
reduced on the machine that holds it; only a small partial result travels, and the
front end puts the partials together.  The answer is exactly the softmax over all
rows of all shards, whatever the split.
"""
from pathlib import Path

import numpy as np

LOG2E = 1.0 / np.log(2.0)


class Shard:
    def __init__(self, keys, values, name="ram"):
        if len(keys) != len(values):
            raise ValueError(f"{name}: {len(keys)} keys, {len(values)} values")
        self.keys, self.values, self.name = keys, values, name

    @classmethod
    def open(cls, folder):
        folder = Path(folder)
        return cls(np.load(folder / "k.npy", mmap_mode="r"), np.load(folder / "v.npy", mmap_mode="r"), folder.name)

    def partial(self, q, tile=4096):
        """q [n, d] already scaled -> (o [n, dv], lse [n]).

        Runs in base two like the device kernel: the logits are multiplied by
        log2(e) once and exp2 is used throughout.
        """
        q2 = np.asarray(q, np.float64) * LOG2E
        m = np.full(len(q2), -np.inf)
        z = np.zeros(len(q2))
        o = np.zeros((len(q2), self.values.shape[1]))
        for a in range(0, len(self.keys), tile):
            s = q2 @ np.asarray(self.keys[a:a + tile], np.float64).T
            m_new = np.maximum(m, s.max(axis=1))
            p = np.exp2(s - m_new[:, None])
            c = np.exp2(m - m_new)
            z = z * c + p.sum(axis=1)
            o = o * c[:, None] + p @ np.asarray(self.values[a:a + tile], np.float64)
            m = m_new
        return o / z[:, None], m + np.log2(z)


def merge(partials):
    """Combine (o, lse) pairs of disjoint key sets."""
    o = np.stack([p[0] for p in partials])
    lse = np.stack([p[1] for p in partials])
    w = np.exp(lse - lse.max(axis=0))
    w /= w.sum(axis=0)
    return (w[..., None] * o).sum(axis=0)


class ShardedMemory:
    """``read(q)`` = softmax(q K^T / sqrt(d)) V over the union of the shards."""

    def __init__(self, shards, d):
        self.shards = [s for s in shards if len(s.keys)]
        self.d = d

    def __len__(self):
        return sum(len(s.keys) for s in self.shards)

    def read(self, q):
        q = np.atleast_2d(q) / np.sqrt(self.d)
        if not self.shards:
            raise LookupError("the memory is empty")
        return merge([s.partial(q) for s in self.shards])

    def rebalance(self, n):
        """Same rows, n equal shards (in memory)."""
        k = np.concatenate([s.keys for s in self.shards])
        v = np.concatenate([s.values for s in self.shards])
        parts = zip(np.array_split(k, n), np.array_split(v, n))
        return ShardedMemory([Shard(a, b) for a, b in parts], self.d)


if __name__ == "__main__":
    g = np.random.default_rng(0)
    mem = ShardedMemory([Shard(g.normal(size=(n, 16)), g.normal(size=(n, 8))) for n in (100, 40, 3)], 16)
    print(len(mem), mem.read(g.normal(size=(2, 16))).round(3))
