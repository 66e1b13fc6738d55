"""Split-KV decoding: every shard of the cache is attended separately, then merged."""
import math
import torch

LOG2E = math.log2(math.e)


def attend_shard(q, k, v):
    """Partial result over one shard.  q (H, D), k and v (H, n, D) -> out (H, D), lse (H,)."""
    s = torch.einsum("hd,hnd->hn", q, k) * (LOG2E / math.sqrt(q.size(-1)))
    top = s.amax(dim=-1, keepdim=True)
    p = torch.exp2(s - top)
    total = p.sum(dim=-1, keepdim=True)
    out = torch.einsum("hn,hnd->hd", p / total, v)
    return out, (top + torch.log2(total)).squeeze(-1)


def merge(parts):
    outs = torch.stack([o for o, _ in parts])
    lses = torch.stack([l for _, l in parts])
    best = lses.amax(dim=0)
    w = torch.exp(lses - best)
    return (w.unsqueeze(-1) * outs).sum(0) / w.sum(0).unsqueeze(-1)


def split_kv_decode(q, k, v, shards=2):
    """Exact softmax attention of one query per head over the whole cache.

    q (H, D); k, v (H, N, D) with N >= shards.  The result does not depend on ``shards``.
    """
    pairs = zip(k.chunk(shards, dim=1), v.chunk(shards, dim=1))
    return merge([attend_shard(q, ks, vs) for ks, vs in pairs])
