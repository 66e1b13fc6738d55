"""Reading a long document that lies in shards on several disks (NumPy).

attend_shard(q, k, v)      one shard:  q (H, Lq, d), k and v (H, n, d)
                           -> partial output (H, Lq, d) and its log-sum-exp (H, Lq)
merge(parts)               list of such pairs -> (H, Lq, d)
attend_sharded(q, shards)  list of (k, v) -> (H, Lq, d)

merge() must give exactly what one softmax(q k^T / sqrt(d)) v over all shards laid end to
end would give.  The shard kernel works with powers of two because the C version does.
"""
import numpy as np

LOG2E = 1.4426950408889634


def attend_shard(q, k, v):
    s = q @ np.swapaxes(k, -1, -2) * (LOG2E / np.sqrt(q.shape[-1]))
    top = s.max(axis=-1, keepdims=True)
    p = np.exp2(s - top)
    total = p.sum(axis=-1, keepdims=True)
    lse = top + np.log2(total)
    return p @ v / total, lse[..., 0]


def merge(parts):
    outs = np.stack([o for o, _ in parts])                  # S H Lq d
    lses = np.stack([l for _, l in parts])                  # S H Lq
    w = np.exp(lses - lses.max(axis=0))
    w = w / w.sum(axis=0)
    return (w[..., None] * outs).sum(axis=0)


def attend_sharded(q, shards):
    return merge([attend_shard(q, k, v) for k, v in shards])


def read_document(x, doc_shards, W, heads):
    """x (Lq, D) questions, doc_shards a list of (n, D) arrays, W dict of (D, D) matrices."""
    split = lambda m: m.reshape(len(m), heads, -1).transpose(1, 0, 2)
    q = split(x @ W["q"])
    y = attend_sharded(q, [(split(c @ W["k"]), split(c @ W["v"])) for c in doc_shards])
    return x + y.transpose(1, 0, 2).reshape(x.shape) @ W["o"]
