"""Reference for our varlen kernel (unpadded batches), for the unit tests on CPU.

Sequences are laid one behind another; cu_q[i]:cu_q[i+1] are the query rows of sequence i
and cu_k[i]:cu_k[i+1] its key rows.  A sequence may have more keys than queries (its prefix
lies in the cache); its queries are then its LAST tokens, as in flash-attn >= 2.1.
"""
import torch


def _owner_and_rank(cu, total):
    owner = torch.searchsorted(cu[1:].contiguous(), torch.arange(total), right=True)
    return owner, torch.arange(total) - cu[owner]


def varlen_attention(q, k, v, cu_q, cu_k, causal=True):
    """q (Tq, H, d); k, v (Tk, Hkv, d); cu_q, cu_k (S+1,) int64 starting with 0.

    Query heads are grouped: head h reads KV head h // (H // Hkv).
    causal: the query at place a of its sequence (counted from the sequence's first key)
    sees the keys 0..a of the same sequence.  Every sequence has len_k >= len_q >= 1.
    Returns (Tq, H, d).
    """
    tq, h, d = q.shape
    tk, hkv, _ = k.shape
    oq, rq = _owner_and_rank(cu_q, tq)
    ok, rk = _owner_and_rank(cu_k, tk)
    len_q, len_k = cu_q.diff(), cu_k.diff()
    place = rq + (len_k - len_q)[oq]
    allowed = oq[:, None] == ok[None, :]
    if causal:
        allowed &= rk[None, :] <= place[:, None]
    k = k.repeat_interleave(h // hkv, dim=1)
    v = v.repeat_interleave(h // hkv, dim=1)
    scores = torch.einsum("qhd,khd->hqk", q, k) / d ** 0.5
    scores = scores.masked_fill(~allowed, -torch.inf)
    return torch.einsum("hqk,khd->qhd", torch.softmax(scores, -1), v)
