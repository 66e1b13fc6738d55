# Reference for the ragged ("varlen") kernel tests.  Slow on purpose.
from __future__ import annotations

from typing import Optional

import torch
from torch import Tensor


def varlen_reference(
    q: Tensor,
    k: Tensor,
    v: Tensor,
    cu_seqlens_q: Tensor,
    cu_seqlens_k: Tensor,
    *,
    causal: bool = False,
    softmax_scale: Optional[float] = None,
    window: tuple[int, int] = (-1, -1),
) -> tuple[Tensor, Tensor]:
    """Attention over concatenated sequences.

    q: (total_q, H, d);  k, v: (total_k, Hkv, d) with H % Hkv == 0, query head h reads
    key head h // (H // Hkv).

    Sequence ``s`` owns rows cu_seqlens[s] .. cu_seqlens[s + 1].  ``causal`` is aligned to
    the bottom right corner, i.e. the last query of a sequence sees all keys of it.
    ``window = (left, right)``: position i sees keys in [i + off - left, i + off + right]
    inclusive where off = len_k - len_q; -1 means unbounded.
    Rows which see nothing are zero and have lse = -inf.

    Returns out (total_q, H, d) in q.dtype and lse (H, total_q) in float32.
    """
    total_q, H, d = q.shape
    groups = H // k.shape[1]
    if softmax_scale is None:
        softmax_scale = d ** -0.5
    acc_t = torch.float64 if q.dtype == torch.float64 else torch.float32

    out = torch.zeros(total_q, H, v.shape[-1], dtype=q.dtype, device=q.device)
    lse = torch.full((H, total_q), float("-inf"), dtype=torch.float32, device=q.device)

    bq = cu_seqlens_q.tolist()
    bk = cu_seqlens_k.tolist()
    left, right = window
    if causal:
        right = 0
    for q0, q1, k0, k1 in zip(bq[:-1], bq[1:], bk[:-1], bk[1:]):
        lq, lk = q1 - q0, k1 - k0
        if lq == 0 or lk == 0:
            continue
        qs = q[q0:q1].to(acc_t).transpose(0, 1)
        ks = k[k0:k1].to(acc_t).repeat_interleave(groups, dim=1).permute(1, 2, 0)
        vs = v[k0:k1].to(acc_t).repeat_interleave(groups, dim=1).transpose(0, 1)

        s = torch.bmm(qs * softmax_scale, ks)
        i = torch.arange(lq, device=q.device).view(-1, 1) + (lk - lq)
        j = torch.arange(lk, device=q.device).view(1, -1)
        hide = torch.zeros(lq, lk, dtype=torch.bool, device=q.device)
        if left >= 0:
            hide |= j < i - left
        if right >= 0:
            hide |= j > i + right
        s = s.masked_fill(hide, float("-inf"))

        m = s.amax(dim=-1, keepdim=True)
        dead = torch.isinf(m)
        p = torch.exp(s - m.masked_fill(dead, 0.0))
        z = p.sum(-1, keepdim=True)
        o = torch.bmm(p, vs) / z.masked_fill(dead, 1.0)
        out[q0:q1] = o.transpose(0, 1).to(q.dtype)
        lse[:, q0:q1] = (m + torch.log(z)).squeeze(-1).masked_fill(dead.squeeze(-1), float("-inf"))
    return out, lse


if __name__ == "__main__":
    torch.manual_seed(1)
    q = torch.randn(9, 4, 8)
    k = torch.randn(14, 2, 8)
    v = torch.randn(14, 2, 8)
    o, l = varlen_reference(q, k, v, torch.tensor([0, 2, 9]), torch.tensor([0, 6, 14]), causal=True)
    print(o.shape, l.shape, torch.isfinite(o).all().item())
