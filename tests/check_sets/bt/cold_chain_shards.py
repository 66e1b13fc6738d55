"""Blood-bank cold chain: every fridge keeps its own temperature log (a shard).

The hub asks one question of all fridges. Each fridge answers with a partial result and
its log-sum-exp; the hub merges the partials, which is exact: the answer equals a single
softmax over all shards together.
"""
import numpy as np

LOG2E = 1.4426950408889634


class Partial:
    """What travels over the radio: out [H, Q, e] and lse [H, Q]."""

    def __init__(self, fridge, out, lse):
        self.fridge = fridge
        self.out = out
        self.lse = lse

    def nbytes(self):
        return self.out.nbytes + self.lse.nbytes


class Fridge:
    """Runs on the logger. The FPU has exp2 only, so the scale carries log2(e)."""

    def __init__(self, name, k, v):
        self.name, self.k, self.v = name, k, v            # [H, n, d], [H, n, e]

    def answer(self, q):
        z = (q * (LOG2E / np.sqrt(q.shape[-1]))) @ self.k.transpose(0, 2, 1)
        top = z.max(-1)
        p = np.exp2(z - top[..., None])
        total = p.sum(-1)
        lse = top + np.log2(total)
        return Partial(self.name, (p @ self.v) / total[..., None], lse)


class Hub:
    def __init__(self, fridges):
        self.fridges = fridges
        self.seen_bytes = 0

    def merge(self, partials):
        lse = np.stack([p.lse for p in partials])                      # [S, H, Q]
        share = np.exp(lse - lse.max(0))
        share /= share.sum(0)
        return sum(w[..., None] * p.out for w, p in zip(share, partials))

    def __call__(self, q):
        """q [H, Q, d] -> [H, Q, e]"""
        partials = [f.answer(q) for f in self.fridges]
        self.seen_bytes += sum(p.nbytes() for p in partials)
        return self.merge(partials)


class Log:
    """Raw readings -> keys and values."""

    def __init__(self, rng, heads=2, d=5, e=3):
        self.wk = rng.normal(size=(heads, 4, d))
        self.wv = rng.normal(size=(heads, 4, e))

    def encode(self, readings):
        # readings [n, 4]: celsius, door open s, compressor duty, ambient
        return readings @ self.wk, readings @ self.wv


def excursions(celsius, low=2.0, high=6.0):
    """Red cells are kept at 2..6 degrees."""
    bad = (celsius < low) | (celsius > high)
    edges = np.flatnonzero(np.diff(np.r_[0, bad.view(np.int8), 0]))
    return list(zip(edges[::2], edges[1::2]))


if __name__ == "__main__":
    rng = np.random.default_rng(12)
    log = Log(rng)
    hub = Hub([Fridge(f"F{i}", *log.encode(rng.normal(4, 1, size=(n, 4)))) for i, n in enumerate((6, 11, 3))])
    print(hub(rng.normal(size=(2, 2, 5))).shape, hub.seen_bytes)
    print(excursions(rng.normal(4, 1.5, 30)))
