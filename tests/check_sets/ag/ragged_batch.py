"""CPU fallback with the calling convention of flash_attn_varlen_func."""
import math
from typing import Optional, Tuple

import torch
from torch import Tensor


def lengths_to_cu(lengths: Tensor) -> Tensor:
    cu = torch.zeros(lengths.numel() + 1, dtype=torch.int32, device=lengths.device)
    cu[1:] = lengths.cumsum(0)
    return cu


def unpad(x: Tensor, keep: Tensor) -> Tuple[Tensor, Tensor]:
    """x (B, S, ...), keep (B, S) bool -> (total, ...), cu_seqlens"""
    return x[keep], lengths_to_cu(keep.sum(1))


def pad(x: Tensor, keep: Tensor) -> Tensor:
    out = x.new_zeros(*keep.shape, *x.shape[1:])
    out[keep] = x
    return out


def _band(lq: int, lk: int, causal: bool, window: Tuple[int, int], device) -> Optional[Tensor]:
    left, right = window
    if causal:
        right = 0
    if left < 0 and right < 0:
        return None
    # aligned to the bottom-right corner: the last query sits on the last key
    row = torch.arange(lq, device=device)[:, None] + (lk - lq)
    col = torch.arange(lk, device=device)[None, :]
    ok = torch.ones(lq, lk, dtype=torch.bool, device=device)
    if left >= 0:
        ok &= col >= row - left
    if right >= 0:
        ok &= col <= row + right
    return ok


def varlen_attention(
    q: Tensor,
    k: Tensor,
    v: Tensor,
    cu_seqlens_q: Tensor,
    cu_seqlens_k: Tensor,
    softmax_scale: Optional[float] = None,
    causal: bool = False,
    window_size: Tuple[int, int] = (-1, -1),
    softcap: float = 0.0,
    return_lse: bool = False,
):
    """
    q: (total_q, H, D); k, v: (total_k, Hk, D) with H a multiple of Hk. Query head h uses
    kv head h // (H // Hk).

    window_size=(l, r): query i sees keys in [i + Lk - Lq - l, i + Lk - Lq + r], both ends
    included; -1 means unbounded. Rows without any visible key are 0 (their lse is -inf).
    """
    H, D = q.shape[1:]
    Hk = k.shape[1]
    if H % Hk:
        raise ValueError("number of query heads must be a multiple of kv heads")
    g = H // Hk
    scale = softmax_scale if softmax_scale is not None else 1.0 / math.sqrt(D)
    out = torch.zeros(q.shape[0], H, v.shape[-1], dtype=q.dtype, device=q.device)
    lse = torch.full((H, q.shape[0]), -math.inf, dtype=torch.float32, device=q.device)

    for (qs, qe), (ks, ke) in zip(_spans(cu_seqlens_q), _spans(cu_seqlens_k)):
        lq, lk = qe - qs, ke - ks
        if lq == 0 or lk == 0:
            continue
        qi = q[qs:qe].view(lq, Hk, g, D).float()
        ki, vi = k[ks:ke].float(), v[ks:ke].float()
        s = torch.einsum("qngd,knd->ngqk", qi, ki) * scale
        if softcap > 0:
            s = softcap * torch.tanh(s / softcap)
        ok = _band(lq, lk, causal, window_size, q.device)
        if ok is not None:
            s = s.masked_fill(~ok, -math.inf)
        m = s.amax(-1, keepdim=True)
        m = torch.where(m.isinf(), torch.zeros_like(m), m)
        e = torch.exp(s - m)
        z = e.sum(-1, keepdim=True)
        o = torch.einsum("ngqk,knd->qngd", e, vi)
        o = o / z.clamp_min(torch.finfo(z.dtype).tiny).permute(2, 0, 1, 3)
        out[qs:qe] = o.reshape(lq, H, -1).to(out.dtype)
        lse[:, qs:qe] = (m + z.log()).view(H, lq)
    return (out, lse) if return_lse else out


def _spans(cu: Tensor):
    c = cu.tolist()
    return list(zip(c[:-1], c[1:]))


if __name__ == "__main__":
    keep = torch.tensor([[1, 1, 1, 0], [1, 1, 1, 1]], dtype=torch.bool)
    x = torch.randn(2, 4, 4, 8)
    flat, cu = unpad(x, keep)
    o = varlen_attention(flat, flat[:, :2], flat[:, :2], cu, cu, causal=True)
    print(pad(o, keep).shape)
