"""Numpy model of the split-KV ("flash decoding") path, used to plan the FPGA port.

Each worker handles one slice of the context and works in powers of two, as the hardware has only exp2:
it returns its normalised partial output and the log-sum-exp of its scores IN BASE 2. `merge` puts the
partial results together; the result equals softmax(q k^T / sqrt(d)) v over the whole context.
"""
import numpy as np

LOG2E = 1.4426950408889634


def partial_attention(q, k, v):
    """q [H, d], k and v [H, n, d] -> out [H, d], lse2 [H]"""
    s = np.einsum("hd,hnd->hn", q, k) * (LOG2E / np.sqrt(q.shape[-1]))
    m = s.max(axis=-1, keepdims=True)
    p = np.exp2(s - m)
    l = p.sum(axis=-1, keepdims=True)
    out = np.einsum("hn,hnd->hd", p / l, v)
    return out, (m + np.log2(l))[:, 0]


def merge(outs, lses):
    """outs [S, H, d], lses [S, H]"""
    top = lses.max(axis=0)
    w = np.exp(lses - top)
    w = w / w.sum(axis=0)
    return (w[..., None] * outs).sum(axis=0)


def split_points(n, workers):
    step = -(-n // workers)
    return [(a, min(a + step, n)) for a in range(0, n, step)]


class SplitKVDecoder:
    def __init__(self, heads, dim, workers=4):
        self.heads, self.dim, self.workers = heads, dim, workers
        self.k = np.zeros((heads, 0, dim))
        self.v = np.zeros((heads, 0, dim))

    def append(self, k, v):
        self.k = np.concatenate([self.k, k[:, None]], axis=1)
        self.v = np.concatenate([self.v, v[:, None]], axis=1)

    def attend(self, q):
        parts = [
            partial_attention(q, self.k[:, a:b], self.v[:, a:b])
            for a, b in split_points(self.k.shape[1], self.workers)
        ]
        return merge(np.stack([o for o, _ in parts]), np.stack([l for _, l in parts]))


def cycles(n, dim, workers, mac_per_cycle=64):
    """latency estimate: slowest worker plus the merge tree"""
    longest = max(b - a for a, b in split_points(n, workers))
    return 2 * longest * dim // mac_per_cycle + int(np.ceil(np.log2(max(workers, 2)))) * dim


def quantise(x, bits=8):
    s = np.abs(x).max() / (2 ** (bits - 1) - 1) + 1e-12
    return np.round(x / s) * s


if __name__ == "__main__":
    rng = np.random.default_rng(3)
    dec = SplitKVDecoder(2, 8)
    for t in range(37):
        dec.append(rng.standard_normal((2, 8)), rng.standard_normal((2, 8)))
        y = dec.attend(rng.standard_normal((2, 8)))
    print(y.round(3), cycles(37, 8, 4))
