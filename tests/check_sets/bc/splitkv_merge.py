"""Split-KV decoding: every worker holds a shard of the keys, the host merges.

Workers are torch processes, the host side is NumPy (it runs in the HTTP server).
"""
import math

import numpy as np
import torch

LOG2E = math.log2(math.e)


def worker_partial(q: torch.Tensor, k: torch.Tensor, v: torch.Tensor):
    """q (H, d), shard k, v (H, T, d). Returns the shard's normalised output (H, d) and
    its log-sum-exp (H,). exp2 is used, as in the GPU kernel."""
    s = torch.einsum("hd,htd->ht", q, k) * (q.shape[-1] ** -0.5 * LOG2E)
    m = s.amax(-1, keepdim=True)
    p = torch.exp2(s - m)
    l = p.sum(-1, keepdim=True)
    out = torch.einsum("ht,htd->hd", p / l, v)
    lse = (m + torch.log2(l)).squeeze(-1)
    return out, lse


def merge(outs, lses):
    """Combine shard results on the host.

    outs (S, H, d), lses (S, H); weight of a shard is exp(lse) / sum exp(lse).
    """
    outs = np.stack(outs)
    lses = np.stack(lses)
    top = lses.max(0)
    w = np.exp(lses - top)
    w = w / w.sum(0)
    return (w[..., None] * outs).sum(0)


def shard(t: torch.Tensor, n: int):
    return [c for c in t.chunk(n, dim=1) if c.shape[1]]


def split_kv_decode(q, k, v, n_splits: int = 2) -> np.ndarray:
    """Attention of one new token. q (H, d); k, v (H, T, d). Result does not depend on
    n_splits."""
    outs, lses = [], []
    for ks, vs in zip(shard(k, n_splits), shard(v, n_splits)):
        o, e = worker_partial(q, ks, vs)
        outs.append(o.numpy())
        lses.append(e.numpy())
    return merge(outs, lses)


class Host:
    def __init__(self, n_splits=4):
        self.n_splits = n_splits
        self.served = 0

    def handle(self, q, k, v):
        self.served += 1
        return split_kv_decode(q, k, v, self.n_splits).tolist()
