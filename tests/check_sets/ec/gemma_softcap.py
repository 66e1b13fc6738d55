"""Gemma-2 style attention core as a pure function.

    logits = cap * tanh(q . k * query_scale / cap)      (cap=None: no capping)
    logits are hidden afterwards where the causal / window / padding rules say so

query_scale replaces 1/sqrt(head_dim); Gemma-2 27B for instance uses
(d_model / n_heads) ** -0.5 although head_dim is another number.  It is therefore an
argument, and callers pass what their checkpoint was trained with.
"""
from __future__ import annotations

import torch
from torch import Tensor


def hidden_pairs(lq: int, lk: int, window: int | None, device=None) -> Tensor:
    """(lq, lk) bool, True = must not be read.

    The lq queries are the newest of lk positions.  With a window, a query reads
    itself and the window - 1 positions before it.
    """
    i = torch.arange(lk - lq, lk, device=device).unsqueeze(1)
    j = torch.arange(lk, device=device).unsqueeze(0)
    bad = j > i
    if window is not None:
        bad |= j <= i - window
    return bad


def gemma_attention(
    q: Tensor,                       # (B, Lq, H, d)
    k: Tensor,                       # (B, Lk, Hkv, d)
    v: Tensor,                       # (B, Lk, Hkv, d)
    *,
    query_scale: float,
    cap: float | None = 50.0,
    window: int | None = None,
    key_ok: Tensor | None = None,    # (B, Lk) bool, True = real token
) -> Tensor:
    """Returns (B, Lq, H, d); head h reads kv head h // (H // Hkv).

    Rows for which no key is left (left padding) come out as zeros.
    """
    B, Lq, H, d = q.shape
    Lk, Hkv = k.shape[1:3]
    q5 = q.reshape(B, Lq, Hkv, H // Hkv, d) * query_scale
    logits = torch.einsum("bqngd,bknd->bngqk", q5, k).float()
    if cap is not None:
        logits = torch.tanh(logits / cap) * cap

    bad = hidden_pairs(Lq, Lk, window, q.device)[None]
    if key_ok is not None:
        bad = bad | ~key_ok[:, None, :]
    bad = bad[:, None, None]                                  # (B|1, 1, 1, Lq, Lk)
    logits = logits.masked_fill(bad, torch.finfo(logits.dtype).min)
    probs = logits.softmax(-1).masked_fill(bad, 0.0)
    out = torch.einsum("bngqk,bknd->bqngd", probs.to(v.dtype), v)
    return out.reshape(B, Lq, H, -1)
