from typing import Optional

import torch


def attention_varlen(
    q: torch.Tensor,
    k: torch.Tensor,
    v: torch.Tensor,
    cu_seqlens_q: torch.Tensor,
    cu_seqlens_k: torch.Tensor,
    causal: bool = False,
    softmax_scale: Optional[float] = None,
) -> torch.Tensor:
    """Slow version of the packed kernel, used in our tests.

    Arguments:
        q: (total_q, nheads, headdim)
        k: (total_k, nheads_k, headdim)
        v: (total_k, nheads_k, headdim)
        cu_seqlens_q: (batch + 1,) int32, where the sequences begin in q
        cu_seqlens_k: (batch + 1,) int32, where the sequences begin in k
        causal: aligned to the bottom right corner of each score matrix
        softmax_scale: default 1 / sqrt(headdim)
    nheads_k must divide nheads; with nheads = 6 and nheads_k = 2 the heads 0, 1, 2 of q
    use head 0 of k and v, the heads 3, 4, 5 use head 1.
    Rows that see no key are zero.
    """
    scale = q.shape[-1] ** -0.5 if softmax_scale is None else softmax_scale
    group = q.shape[1] // k.shape[1]
    k = k.repeat_interleave(group, dim=1)
    v = v.repeat_interleave(group, dim=1)

    seq_q = torch.bucketize(torch.arange(q.shape[0]), cu_seqlens_q[1:], right=True)
    seq_k = torch.bucketize(torch.arange(k.shape[0]), cu_seqlens_k[1:], right=True)
    keep = seq_q[:, None] == seq_k[None, :]
    if causal:
        left_q = cu_seqlens_q[1:][seq_q] - torch.arange(q.shape[0])
        left_k = cu_seqlens_k[1:][seq_k] - torch.arange(k.shape[0])
        keep = keep & (left_q[:, None] <= left_k[None, :])

    scores = torch.einsum("qhd,khd->hqk", q, k).float() * scale
    scores = scores.masked_fill(~keep, torch.finfo(scores.dtype).min)
    probs = torch.softmax(scores, dim=-1).masked_fill(~keep, 0.0)
    return torch.einsum("hqk,khd->qhd", probs.to(v.dtype), v)
