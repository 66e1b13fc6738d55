#!/usr/bin/env python
"""Reference for the split-KV decode kernel of our serving engine.

One query token per request.  The KV pages of a request are cut into `n_splits` parts, each
worker handles a part and stores its output, normalised within the part, together with the
log-sum-exp of its logits; a second pass puts the parts together.  Like the CUDA kernel it
works with exp2, since that is what the hardware has.
"""
import argparse
import math
from typing import List, Tuple

import numpy as np

LOG2E = 1.4426950408889634
PAGE = 16


class PagedKV:
    """Pages (num_pages, PAGE, num_kv_heads, head_dim), a block table per request."""

    def __init__(self, num_pages: int, num_kv_heads: int, head_dim: int):
        shape = (num_pages, PAGE, num_kv_heads, head_dim)
        self.k = np.zeros(shape, np.float32)
        self.v = np.zeros(shape, np.float32)
        self.free: List[int] = list(range(num_pages))[::-1]

    def store(self, k: np.ndarray, v: np.ndarray) -> List[int]:
        table = []
        for s in range(0, len(k), PAGE):
            page = self.free.pop()
            n = len(k[s:s + PAGE])
            self.k[page, :n], self.v[page, :n] = k[s:s + PAGE], v[s:s + PAGE]
            table.append(page)
        return table

    def gather(self, table: List[int], length: int) -> Tuple[np.ndarray, np.ndarray]:
        h, d = self.k.shape[2:]
        return self.k[table].reshape(-1, h, d)[:length], self.v[table].reshape(-1, h, d)[:length]


def partial_attention(q, k, v, sm_scale):
    """q (H, D), k and v (T, Hkv, D) -> out (H, D), lse (H,)"""
    group = q.shape[0] // k.shape[1]
    k = np.repeat(k, group, axis=1)
    v = np.repeat(v, group, axis=1)
    qk = np.einsum("hd,thd->ht", q, k) * (sm_scale * LOG2E)
    m = qk.max(axis=1)
    p = np.exp2(qk - m[:, None])
    s = p.sum(axis=1)
    out = np.einsum("ht,thd->hd", p, v) / s[:, None]
    return out, m + np.log2(s)


def merge_states(outs, lses):
    """outs (S, H, D), lses (S, H)"""
    m = lses.max(axis=0)
    w = np.exp(lses - m)
    w = w / w.sum(axis=0)
    return (w[..., None] * outs).sum(axis=0)


def decode_attention(q, k, v, n_splits=4, sm_scale=None):
    """Softmax attention of one token over all cached tokens.

    q (num_heads, head_dim); k, v (kv_len, num_kv_heads, head_dim); the result does not
    depend on n_splits.
    """
    sm_scale = sm_scale or 1.0 / math.sqrt(q.shape[-1])
    step = -(-k.shape[0] // n_splits)
    parts = [partial_attention(q, k[i:i + step], v[i:i + step], sm_scale) for i in range(0, k.shape[0], step)]
    outs = np.stack([o for o, _ in parts])
    lses = np.stack([l for _, l in parts])
    return merge_states(outs, lses)


def main():
    ap = argparse.ArgumentParser()
    ap.add_argument("--len", type=int, default=70)
    ap.add_argument("--splits", type=int, default=4)
    args = ap.parse_args()
    rng = np.random.default_rng(0)
    pool = PagedKV(32, 2, 8)
    k, v = rng.standard_normal((2, args.len, 2, 8)).astype(np.float32)
    table = pool.store(k, v)
    k, v = pool.gather(table, args.len)
    print(decode_attention(rng.standard_normal((4, 8)).astype(np.float32), k, v, args.splits))


if __name__ == "__main__":
    main()
