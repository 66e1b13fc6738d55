"""Simulates ring attention on one machine: every worker holds a shard of the keys and
values, computes its part, and the parts are merged through the log-sum-exps."""
import numpy as np

LOG2E = 1.4426950408889634


def shard_attention(q, k, v):
    """One worker's part. q (H, Tq, d); k, v (H, Ts, d).

    The exponentials are base 2 as in the kernel. Returns the normalised output of the
    shard and the log-sum-exp of its scores (H, Tq).
    """
    s = np.einsum("hid,hjd->hij", q, k) * (LOG2E / np.sqrt(q.shape[-1]))
    m = s.max(axis=-1)
    p = np.exp2(s - m[..., None])
    z = p.sum(axis=-1)
    out = np.einsum("hij,hjd->hid", p, v) / z[..., None]
    return out, m + np.log2(z)


def merge(parts):
    """Weights every part by its share exp(lse_i) / sum_j exp(lse_j)."""
    lses = np.stack([lse for _, lse in parts])
    outs = np.stack([o for o, _ in parts])
    top = lses.max(axis=0)
    share = np.exp(lses - top)
    share = share / share.sum(axis=0)
    return (outs * share[..., None]).sum(axis=0)


def ring_attention(q, k, v, workers=2):
    """Full (not causal) attention over all keys; equals softmax(q k^T / sqrt(d)) v
    for any number of workers. q (H, Tq, d), k and v (H, Tk, d)."""
    ks = np.array_split(k, workers, axis=1)
    vs = np.array_split(v, workers, axis=1)
    return merge([shard_attention(q, a, b) for a, b in zip(ks, vs)])


if __name__ == "__main__":
    r = np.random.default_rng(0)
    print(ring_attention(r.normal(size=(2, 3, 4)), r.normal(size=(2, 9, 4)), r.normal(size=(2, 9, 4))).shape)
