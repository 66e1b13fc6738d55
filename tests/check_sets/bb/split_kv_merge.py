"""Split-KV attention for the protein search server.

Workers own shards of the (huge) key table. The GPU workers exponentiate with
exp2, therefore every worker reports its log-sum-exp in base 2.
"""
import numpy as np

LOG2E = 1.0 / np.log(2.0)


def shard_attention(q, k, v, scale):
    """one worker. q (n, d), k (m, d), v (m, e)

    out (n, e): softmax-weighted values of this shard
    lse (n,)  : log2 of the sum of exp of the scores of this shard
    """
    s = (q @ k.T) * (scale * LOG2E)
    top = s.max(axis=1)
    p = np.exp2(s - top[:, None])
    total = p.sum(axis=1)
    return (p @ v) / total[:, None], top + np.log2(total)


def combine(outs, lses):
    """outs (shards, n, e), lses (shards, n) as reported by the workers"""
    outs, lses = np.stack(outs), np.stack(lses)
    top = lses.max(axis=0)
    w = np.exp(lses - top)
    w = w / w.sum(axis=0)
    return np.einsum("sn,sne->ne", w, outs)


def split_attention(q, k, v, shards=2, scale=None):
    """Equals softmax(q k^T * scale) v over the whole table, whatever the number of shards."""
    scale = q.shape[-1] ** -0.5 if scale is None else scale
    parts = [shard_attention(q, ks, vs, scale)
             for ks, vs in zip(np.array_split(k, shards), np.array_split(v, shards)) if len(ks)]
    return combine(*zip(*parts))


class HomologSearch:
    """Embeds a query with the annotations of the proteins it resembles."""

    def __init__(self, table, annotations, shards=4, temperature=None):
        assert len(table) == len(annotations)
        self.table = np.asarray(table, float)
        self.annotations = np.asarray(annotations, float)
        self.shards = shards
        self.scale = None if temperature is None else 1.0 / temperature

    def __call__(self, queries):
        return split_attention(np.atleast_2d(queries), self.table, self.annotations,
                               self.shards, self.scale)

    def top_terms(self, query, names, n=5):
        p = self(query)[0]
        order = np.argsort(-p)[:n]
        return [(names[i], float(p[i])) for i in order]


def main():
    rng = np.random.default_rng(11)
    table = rng.normal(size=(1000, 32))
    go = (rng.random((1000, 12)) < 0.1).astype(float)
    s = HomologSearch(table, go)
    print(s.top_terms(table[3], [f"GO:{i:07d}" for i in range(12)]))


if __name__ == "__main__":
    main()
