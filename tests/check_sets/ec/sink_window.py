"""StreamingLLM-style attention: a few sink tokens plus a sliding window.

A query at absolute position i may read key j (j <= i) when
    * j < n_sink            (the first n_sink tokens are always readable), or
    * i - j < window        (the last `window` tokens, i itself among them).
Nothing else.  The queries are the last Lq tokens of the sequence that k and v
cover, so query row r sits at position Lk - Lq + r.

Evaluated key-block by key-block with an online softmax so that no (Lq, Lk) matrix
is ever stored.  Blocks that no query can read are skipped.
"""
import math

import torch


def visible(qpos, kpos, n_sink, window):
    i, j = qpos[:, None], kpos[None, :]
    return (j <= i) & ((j < n_sink) | (i - j < window))


def streaming_attention(q, k, v, n_sink=4, window=256, block=64):
    """q (B, H, Lq, d), k and v (B, H, Lk, d) with Lq <= Lk -> (B, H, Lq, d)."""
    B, H, Lq, d = q.shape
    Lk = k.shape[2]
    qpos = torch.arange(Lk - Lq, Lk, device=q.device)
    q = q.float() / math.sqrt(d)

    acc = torch.zeros(B, H, Lq, v.shape[-1], device=q.device)
    norm = torch.zeros(B, H, Lq, 1, device=q.device)
    # finite start value: a row that has seen nothing yet must not give inf - inf
    top = torch.full((B, H, Lq, 1), torch.finfo(torch.float32).min, device=q.device)

    for start in range(0, Lk, block):
        kpos = torch.arange(start, min(start + block, Lk), device=q.device)
        ok = visible(qpos, kpos, n_sink, window)
        if not ok.any():
            continue
        kb = k[:, :, start:start + block].float()
        vb = v[:, :, start:start + block].float()
        s = (q @ kb.transpose(-1, -2)).masked_fill(~ok, float("-inf"))
        new_top = torch.maximum(top, s.amax(dim=-1, keepdim=True))
        e = torch.exp(s - new_top)
        shrink = torch.exp(top - new_top)
        acc = acc * shrink + e @ vb
        norm = norm * shrink + e.sum(dim=-1, keepdim=True)
        top = new_top
    return (acc / norm).to(v.dtype)
