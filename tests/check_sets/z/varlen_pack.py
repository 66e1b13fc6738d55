"""Attention over packed sequences, after the interface of flash_attn_varlen_func.

All sequences of a batch lie one after another in a (total, H, D) tensor; `cu_seqlens`
(B + 1,) holds the borders: sequence b is rows cu_seqlens[b] .. cu_seqlens[b + 1] - 1.
"""
import torch


def pack(seqs):
    """list of (len_b, ...) tensors -> (total, ...), cu_seqlens"""
    lens = torch.tensor([0] + [len(s) for s in seqs])
    return torch.cat(seqs, dim=0), torch.cumsum(lens, 0)


def unpack(packed, cu_seqlens):
    return list(torch.tensor_split(packed, cu_seqlens[1:-1].tolist(), dim=0))


def segment_of(cu_seqlens, total, device):
    """For every packed row, the number of its sequence and its place in it."""
    row = torch.arange(total, device=device)
    seg = torch.bucketize(row, cu_seqlens[1:].to(device), right=True)
    return seg, row - cu_seqlens.to(device)[seg]


def varlen_attention(q, k, v, cu_seqlens_q, cu_seqlens_k, causal=False, window=None, softmax_scale=None):
    """q (Tq, H, D); k, v (Tk, Hk, D) with H a multiple of Hk (query head h reads kv head
    h // (H // Hk)).

    causal: aligned at the END of each sequence, so with 2 queries and 5 keys the first
    query sees 4 keys.  window: int, at most so many keys to the LEFT besides the
    aligned one.  Rows that may see nothing get zeros.
    """
    Tq, H, D = q.shape
    Tk, Hk, _ = k.shape
    scale = D ** -0.5 if softmax_scale is None else softmax_scale
    if H % Hk:
        raise ValueError("query heads must be a multiple of kv heads")
    k = k.repeat_interleave(H // Hk, dim=1)
    v = v.repeat_interleave(H // Hk, dim=1)

    seg_q, pos_q = segment_of(cu_seqlens_q, Tq, q.device)
    seg_k, pos_k = segment_of(cu_seqlens_k, Tk, q.device)
    len_q = (cu_seqlens_q[1:] - cu_seqlens_q[:-1]).to(q.device)
    len_k = (cu_seqlens_k[1:] - cu_seqlens_k[:-1]).to(q.device)
    aligned = pos_q + (len_k - len_q)[seg_q]

    ok = seg_q[:, None] == seg_k[None, :]
    if causal:
        ok = ok & (pos_k[None, :] <= aligned[:, None])
    if window is not None:
        ok = ok & (pos_k[None, :] >= aligned[:, None] - window)

    s = torch.einsum("qhd,khd->hqk", q.float(), k.float()) * scale
    s = s.masked_fill(~ok, float("-inf"))
    top = s.amax(-1, keepdim=True)
    top = torch.where(torch.isfinite(top), top, torch.zeros_like(top))
    e = torch.exp(s - top)
    z = e.sum(-1, keepdim=True)
    p = e / torch.where(z > 0, z, torch.ones_like(z))
    return torch.einsum("hqk,khd->qhd", p, v.float()).to(q.dtype)
