"""Reference (slow, plain PyTorch) versions of the packed attention operators.

Packing: the sequences of a batch lie one after another, no padding.
  q          (total_q, nheads, headdim)
  k, v       (total_k, nheads_k, headdim), nheads % nheads_k == 0
  cu_seqlens (batch + 1,) int32, exclusive prefix sums: sequence b is
             rows cu[b] .. cu[b+1]
Causal masks are aligned to the bottom right corner (last query sees last key).
"""
import math
from typing import List, Optional, Tuple

import torch


def lengths_to_cu(lengths: List[int]) -> torch.Tensor:
    cu = torch.zeros(len(lengths) + 1, dtype=torch.int32)
    cu[1:] = torch.tensor(lengths, dtype=torch.int32).cumsum(0)
    return cu


def unpad(x: torch.Tensor, keep: torch.Tensor) -> Tuple[torch.Tensor, torch.Tensor, torch.Tensor]:
    """x (B, L, ...), keep bool (B, L) -> rows, flat indices, cu_seqlens"""
    idx = keep.flatten().nonzero(as_tuple=True)[0]
    return x.flatten(0, 1)[idx], idx, lengths_to_cu(keep.sum(1).tolist())


def repad(rows, idx, batch, length):
    out = rows.new_zeros((batch * length,) + rows.shape[1:])
    out[idx] = rows
    return out.view(batch, length, *rows.shape[1:])


def _owner(cu: torch.Tensor, total: int):
    pos = torch.arange(total, device=cu.device)
    b = torch.searchsorted(cu[1:].contiguous(), pos, right=True)
    return b, pos - cu[b]


def varlen_attention_ref(
    q: torch.Tensor,
    k: torch.Tensor,
    v: torch.Tensor,
    cu_seqlens_q: torch.Tensor,
    cu_seqlens_k: torch.Tensor,
    softmax_scale: Optional[float] = None,
    causal: bool = False,
) -> torch.Tensor:
    """Queries that may see no key at all give zeros."""
    tq, h, d = q.shape
    tk, hk, _ = k.shape
    scale = softmax_scale if softmax_scale is not None else 1.0 / math.sqrt(d)
    bq, iq = _owner(cu_seqlens_q.long(), tq)
    bk, ik = _owner(cu_seqlens_k.long(), tk)
    allowed = bq[:, None] == bk[None, :]
    if causal:
        lq = (cu_seqlens_q[1:] - cu_seqlens_q[:-1]).long()
        lk = (cu_seqlens_k[1:] - cu_seqlens_k[:-1]).long()
        shift = (lk - lq)[bq]
        allowed = allowed & (ik[None, :] <= (iq + shift)[:, None])
    g = h // hk
    qg = q.view(tq, hk, g, d)
    s = torch.einsum("qngd,knd->ngqk", qg.float(), k.float()) * scale
    s = s.masked_fill(~allowed, float("-inf"))
    m = s.amax(-1, keepdim=True)
    m = torch.where(torch.isinf(m), torch.zeros_like(m), m)
    p = (s - m).exp()
    l = p.sum(-1, keepdim=True)
    p = p / torch.where(l == 0, torch.ones_like(l), l)
    o = torch.einsum("ngqk,knd->qngd", p, v.float())
    return o.reshape(tq, h, v.shape[-1]).to(q.dtype)


def packed_self_attention(x_qkv, cu, causal=True):
    """x_qkv (total, 3, nheads, headdim)"""
    q, k, v = x_qkv.unbind(1)
    return varlen_attention_ref(q, k, v, cu, cu, causal=causal)
