"""
Memory-lean exact attention in plain PyTorch.

Only (q, k, v, out, lse) are kept for the backward pass; the probabilities are rebuilt
one block of queries at a time.  See Dao et al. 2022, appendix B, for the identities:

    dV = P^T dO
    dP = dO V^T
    dS = P * (dP - rowsum(dO * O))
"""
import math

import torch


def _block_scores(qb, k, scale, start, causal, key_mask):
    s = torch.matmul(qb, k.transpose(-1, -2)) * scale
    if causal:
        i = torch.arange(start, start + qb.shape[-2], device=qb.device)
        j = torch.arange(k.shape[-2], device=qb.device)
        s = s.masked_fill(j > i[:, None] + (causal - 1), float("-inf"))
    if key_mask is not None:
        s = s.masked_fill(~key_mask[:, None, None, :], float("-inf"))
    return s


class _LeanAttention(torch.autograd.Function):
    @staticmethod
    def forward(ctx, q, k, v, key_mask, causal, block):
        scale = 1.0 / math.sqrt(q.shape[-1])
        # `causal` is stored as 1 + (Lk - Lq) so that 0 stays "off"
        shift = 1 + k.shape[-2] - q.shape[-2] if causal else 0
        out = torch.empty(*q.shape[:-1], v.shape[-1], dtype=q.dtype, device=q.device)
        lse = torch.empty(q.shape[:-1], dtype=q.dtype, device=q.device)
        for a in range(0, q.shape[-2], block):
            b = min(a + block, q.shape[-2])
            s = _block_scores(q[..., a:b, :], k, scale, a, shift, key_mask)
            l = torch.logsumexp(s, dim=-1)
            lse[..., a:b] = l
            p = torch.exp(s - l.unsqueeze(-1).clamp_min(torch.finfo(l.dtype).min))
            out[..., a:b, :] = torch.matmul(p, v)
        ctx.save_for_backward(q, k, v, out, lse, key_mask)
        ctx.args = (scale, shift, block)
        return out

    @staticmethod
    def backward(ctx, do):
        q, k, v, out, lse, key_mask = ctx.saved_tensors
        scale, shift, block = ctx.args
        dq, dk, dv = torch.empty_like(q), torch.zeros_like(k), torch.zeros_like(v)
        delta = (do * out).sum(-1, keepdim=True)
        for a in range(0, q.shape[-2], block):
            b = min(a + block, q.shape[-2])
            qb, dob = q[..., a:b, :], do[..., a:b, :]
            s = _block_scores(qb, k, scale, a, shift, key_mask)
            l = lse[..., a:b].unsqueeze(-1).clamp_min(torch.finfo(lse.dtype).min)
            p = torch.exp(s - l)
            dv += torch.matmul(p.transpose(-1, -2), dob)
            ds = p * (torch.matmul(dob, v.transpose(-1, -2)) - delta[..., a:b, :])
            dq[..., a:b, :] = torch.matmul(ds, k) * scale
            dk += torch.matmul(ds.transpose(-1, -2), qb) * scale
        return dq, dk, dv, None, None, None


def lean_attention(q, k, v, key_mask=None, causal=False, block=64):
    """q (B, H, Lq, D), k (B, H, Lk, D), v (B, H, Lk, Dv); key_mask (B, Lk), True = attend.

    When Lq < Lk and causal, the queries are the last Lq positions (decoding with a cache),
    which requires Lq <= Lk. A query with nothing to attend to returns zeros.
    """
    if causal and q.shape[-2] > k.shape[-2]:
        raise ValueError("causal attention needs Lq <= Lk")
    return _LeanAttention.apply(q, k, v, key_mask, causal, block)


if __name__ == "__main__":
    torch.manual_seed(0)
    args = [torch.randn(2, 2, 7, 4, dtype=torch.double, requires_grad=True) for _ in range(3)]
    print(torch.autograd.gradcheck(lambda *t: lean_attention(*t, causal=True, block=3), args))
