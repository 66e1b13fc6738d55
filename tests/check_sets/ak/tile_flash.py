"""FlashAttention-2 written in tiles with torch ops: the oracle for the Triton kernel.

Kept as near to the kernel as possible, so the exponentials are base 2 and log2(e) is folded
into the scale of the scores. The statistic that is saved for backward is base 2, too.
"""
import math

import torch

LOG2E = 1.4426950408889634


def _hidden(i0, i1, j0, j1, shift, device):
    """True above the diagonal; query i stands at key position i + shift."""
    rows = torch.arange(i0, i1, device=device)[:, None] + shift
    return torch.arange(j0, j1, device=device)[None, :] > rows


class _TileFlash(torch.autograd.Function):
    @staticmethod
    def forward(ctx, q, k, v, causal, sm_scale, BM, BN):
        B, H, M, D = q.shape
        N = k.shape[2]
        qk_scale = sm_scale * LOG2E
        o = torch.zeros_like(q)
        L = q.new_full((B, H, M), float("-inf"))
        for i0 in range(0, M, BM):
            i1 = min(i0 + BM, M)
            qi = q[:, :, i0:i1] * qk_scale
            m = q.new_full((B, H, i1 - i0), float("-inf"))
            l = q.new_zeros(B, H, i1 - i0)
            acc = q.new_zeros(B, H, i1 - i0, D)
            hi = min(N, i1 + N - M) if causal else N
            for j0 in range(0, hi, BN):
                j1 = min(j0 + BN, N)
                s = qi @ k[:, :, j0:j1].transpose(-1, -2)
                if causal:
                    s = s.masked_fill(_hidden(i0, i1, j0, j1, N - M, q.device), float("-inf"))
                m_new = torch.maximum(m, s.amax(-1))
                safe = torch.where(m_new == float("-inf"), torch.zeros_like(m_new), m_new)
                alpha = torch.exp2(m - safe)
                p = torch.exp2(s - safe.unsqueeze(-1))
                l = l * alpha + p.sum(-1)
                acc = acc * alpha.unsqueeze(-1) + p @ v[:, :, j0:j1]
                m = m_new
            some = l > 0
            o[:, :, i0:i1] = acc / torch.where(some, l, torch.ones_like(l)).unsqueeze(-1)
            L[:, :, i0:i1] = torch.where(some, m + torch.log2(l), L[:, :, i0:i1])
        ctx.save_for_backward(q, k, v, o, L)
        ctx.conf = causal, sm_scale, BM, BN
        return o

    @staticmethod
    def backward(ctx, do):
        q, k, v, o, L = ctx.saved_tensors
        causal, sm_scale, BM, BN = ctx.conf
        M, N = q.shape[2], k.shape[2]
        dq, dk, dv = torch.zeros_like(q), torch.zeros_like(k), torch.zeros_like(v)
        delta = (do * o).sum(-1)
        safe_L = torch.where(L == float("-inf"), torch.full_like(L, float("inf")), L)
        for j0 in range(0, N, BN):
            j1 = min(j0 + BN, N)
            kj, vj = k[:, :, j0:j1], v[:, :, j0:j1]
            for i0 in range(0, M, BM):
                i1 = min(i0 + BM, M)
                qi, doi = q[:, :, i0:i1], do[:, :, i0:i1]
                s = (qi @ kj.transpose(-1, -2)) * (sm_scale * LOG2E)
                if causal:
                    s = s.masked_fill(_hidden(i0, i1, j0, j1, N - M, q.device), float("-inf"))
                p = torch.exp2(s - safe_L[:, :, i0:i1].unsqueeze(-1))
                dv[:, :, j0:j1] += p.transpose(-1, -2) @ doi
                dp = doi @ vj.transpose(-1, -2)
                ds = p * (dp - delta[:, :, i0:i1].unsqueeze(-1)) * sm_scale
                dq[:, :, i0:i1] += ds @ kj
                dk[:, :, j0:j1] += ds.transpose(-1, -2) @ qi
        return dq, dk, dv, None, None, None, None


def tile_flash(q, k, v, causal=False, sm_scale=None, block_m=64, block_n=64):
    """q [B, H, M, D], k and v [B, H, N, D]. Causal masks are aligned to the lower right corner;
    rows that see nothing give zeros."""
    if k.shape[2] != v.shape[2]:
        raise ValueError("k and v differ in length")
    if sm_scale is None:
        sm_scale = 1.0 / math.sqrt(q.shape[-1])
    return _TileFlash.apply(q, k, v, causal, sm_scale, block_m, block_n)


def bench(fn, *args, rounds=5):
    import time

    fn(*args)
    t = time.perf_counter()
    for _ in range(rounds):
        fn(*args)
    return (time.perf_counter() - t) / rounds


if __name__ == "__main__":
    x = [torch.randn(1, 4, 256, 32) for _ in range(3)]
    print("tiles %.4f s" % bench(tile_flash, *x))
