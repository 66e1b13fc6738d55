"""Search service, speed-up: fold the heads into the batch and use one baddbmm.

folded_attention(q, k, v, key_keep, heads)
    q         (B, Lq, H*d)
    k, v      (B, Lk, H*d)
    key_keep  (B, Lk) bool, True = real token; every sample has at least one True
    returns   (B, Lq, H*d), softmax over the kept keys of q.k / sqrt(d), head by head

The last axis is head-major: columns h*d .. (h+1)*d - 1 belong to head h.
"""
import torch


def _fold(t, heads):
    B, L, E = t.shape
    return t.reshape(B, L, heads, E // heads).transpose(1, 2).reshape(B * heads, L, E // heads)


def _unfold(t, heads):
    BH, L, d = t.shape
    return t.reshape(BH // heads, heads, L, d).transpose(1, 2).reshape(BH // heads, L, heads * d)


def folded_attention(q, k, v, key_keep, heads):
    qf, kf, vf = _fold(q, heads), _fold(k, heads), _fold(v, heads)
    bias = torch.zeros(key_keep.shape, dtype=q.dtype, device=q.device)
    bias = bias.masked_fill(key_keep.logical_not(), float("-inf"))
    bias = bias.repeat_interleave(heads, dim=0)[:, None, :].expand(-1, q.size(1), -1)
    logits = torch.baddbmm(bias, qf, kf.transpose(1, 2), beta=1.0, alpha=qf.size(-1) ** -0.5)
    return _unfold(torch.bmm(logits.softmax(dim=-1), vf), heads)
