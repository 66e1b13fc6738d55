"""Split-KV decoding on CPU workers (flash-decoding style).

The KV cache of a long chat is spread over several shards.  Every shard computes its part
of the output and the log-sum-exp of its scores; the coordinator merges the parts into
exactly what one softmax over the whole cache gives.  The shards work with exp2, which
is cheaper than exp on our boxes.
"""
import numpy as np

LOG2E = 1.4426950408889634


def shard_attention(q, k, v):
    """q [H, D], k/v [T, H, D] -> partial output [H, D], log-sum-exp [H]"""
    scores = np.einsum("hd,thd->ht", q, k) * (LOG2E / np.sqrt(q.shape[-1]))
    m = scores.max(axis=1)
    p = np.exp2(scores - m[:, None])
    total = p.sum(axis=1)
    out = np.einsum("ht,thd->hd", p, v) / total[:, None]
    return out, m + np.log2(total)


def merge(outs, lses):
    """outs [S, H, D], lses [S, H] -> [H, D]"""
    top = lses.max(axis=0)
    w = np.exp(lses - top)
    w = w / w.sum(axis=0)
    return np.einsum("sh,shd->hd", w, outs)


class SplitKVDecoder:
    def __init__(self, heads=4, dim=8, shards=3):
        self.heads, self.dim, self.shards = heads, dim, shards
        self.keys = [[] for _ in range(shards)]
        self.values = [[] for _ in range(shards)]
        self.length = 0

    def append(self, k, v):
        """Tokens go to the shards round robin."""
        target = self.length % self.shards
        self.keys[target].append(k)
        self.values[target].append(v)
        self.length += 1

    def decode(self, q, k, v):
        """Adds the new token's k, v [H, D] and returns the attention output for q [H, D]."""
        self.append(k, v)
        parts = [
            shard_attention(q, np.stack(ks), np.stack(vs))
            for ks, vs in zip(self.keys, self.values)
            if ks
        ]
        outs = np.stack([o for o, _ in parts])
        lses = np.stack([l for _, l in parts])
        return merge(outs, lses)
