"""Attention over very long detector traces whose keys live on several machines.

Every worker holds a slice of the keys/values and answers with its partial output and the
log-sum-exp of its scores; the front end merges the partial results. Workers use exp2 because
that is what the FPGA softmax unit offers.
"""
import numpy as np

LOG2E = 1.4426950408889634


class Shard:
    """keys, values: [S, H, d]; alive: bool [S], False = dead channel"""

    def __init__(self, keys, values, alive=None):
        self.keys = keys
        self.values = values
        self.alive = np.ones(len(keys), bool) if alive is None else np.asarray(alive, bool)

    def partial(self, q):
        """q [T, H, d] -> out [T, H, d], lse [T, H]"""
        d = q.shape[-1]
        s = np.einsum("thd,shd->ths", q, self.keys) / np.sqrt(d)
        s = np.where(self.alive[None, None, :], s * LOG2E, -np.inf)
        m = s.max(-1, keepdims=True)
        m = np.where(np.isfinite(m), m, 0.0)
        p = np.exp2(s - m)
        z = p.sum(-1, keepdims=True)
        out = np.einsum("ths,shd->thd", p, self.values) / np.where(z > 0, z, 1.0)
        with np.errstate(divide="ignore"):
            lse = (m + np.log2(z))[..., 0]
        return out, lse


def merge_partials(outs, lses):
    """Weighted mean of the partial outputs. outs [n, T, H, d], lses [n, T, H]

        out = sum_i exp(lse_i) out_i / sum_i exp(lse_i)
    """
    outs = np.stack(outs)
    lses = np.stack(lses)
    top = lses.max(axis=0)
    top = np.where(np.isfinite(top), top, 0.0)
    w = np.exp(lses - top)
    total = w.sum(axis=0)
    w = w / np.where(total > 0, total, 1.0)
    return (w[..., None] * outs).sum(axis=0)


class ShardedAttention:
    def __init__(self, shards):
        self.shards = list(shards)

    def __call__(self, q):
        """softmax(q k^T / sqrt(d)) v over the keys of all shards; q [T, H, d]"""
        outs, lses = zip(*(sh.partial(q) for sh in self.shards))
        return merge_partials(outs, lses)

    @classmethod
    def scatter(cls, keys, values, n, alive=None):
        cuts = np.linspace(0, len(keys), n + 1).astype(int)
        alive = np.ones(len(keys), bool) if alive is None else alive
        return cls(Shard(keys[a:b], values[a:b], alive[a:b]) for a, b in zip(cuts[:-1], cuts[1:]) if b > a)


class TraceReader:
    """features of a trigger window, read from the full trace"""

    def __init__(self, params, heads):
        self.p = params
        self.heads = heads

    def project(self, x, name):
        y = x @ self.p[name]
        return y.reshape(len(x), self.heads, -1)

    def load(self, trace, n_machines, alive=None):
        self.attention = ShardedAttention.scatter(self.project(trace, "wk"), self.project(trace, "wv"),
                                                  n_machines, alive)

    def read(self, window):
        y = self.attention(self.project(window, "wq"))
        return window + y.reshape(len(window), -1) @ self.p["wo"]


def random_params(d=32, seed=0):
    r = np.random.default_rng(seed)
    return {n: r.normal(0, d ** -0.5, (d, d)) for n in ("wq", "wk", "wv", "wo")}


if __name__ == "__main__":
    rng = np.random.default_rng(0)
    reader = TraceReader(random_params(), heads=4)
    reader.load(rng.normal(size=(5000, 32)), n_machines=7)
    print(reader.read(rng.normal(size=(16, 32))).std())
