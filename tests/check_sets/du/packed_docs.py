"""Sequence packing without cross-document contamination.

All documents of a batch are laid end to end in one row of `total` tokens (no padding).
cu_seqlens is the flash-attn convention: int tensor [0, n0, n0+n1, ..., total].
This is the slow path I use on CPU to test the varlen kernel.
"""
import torch


def doc_ids(cu_seqlens):
    lens = cu_seqlens[1:] - cu_seqlens[:-1]
    return torch.repeat_interleave(torch.arange(len(lens), device=lens.device), lens)


def varlen_attn(q, k, v, cu_seqlens, causal=True, softmax_scale=None):
    """
    q        (total, Hq, d)
    k, v     (total, Hkv, d), Hq a multiple of Hkv; query head h reads kv head h // (Hq // Hkv)
    causal   a token sees itself and the earlier tokens of ITS document; if False, its whole
             document
    softmax_scale defaults to 1/sqrt(d)
    returns  (total, Hq, d)
    """
    total, Hq, d = q.shape
    Hkv = k.size(1)
    if softmax_scale is None:
        softmax_scale = d ** -0.5
    ids = doc_ids(cu_seqlens)
    assert ids.numel() == total
    allow = ids[:, None] == ids[None, :]
    if causal:
        allow = allow.tril()
    # group the query heads instead of copying k and v
    qg = q.view(total, Hkv, Hq // Hkv, d)
    s = torch.einsum("tgrd,sgd->grts", qg.float(), k.float()) * softmax_scale
    s = s.masked_fill(~allow, -torch.inf)
    p = torch.softmax(s, dim=-1).to(v.dtype)
    o = torch.einsum("grts,sgd->tgrd", p, v)
    return o.reshape(total, Hq, d)
