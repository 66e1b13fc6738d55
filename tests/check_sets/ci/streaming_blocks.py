"""Exact attention in one pass over blocks of keys (running maximum and running sums).

streaming_attention(q, k, v) equals softmax(q k^T / sqrt(d)) v for any block size, but
never holds the whole (T, S) score matrix.
"""
import torch


@torch.no_grad()
def streaming_attention(q, k, v, lengths=None, block=4):
    """q (B, H, T, d), k and v (B, H, S, d); lengths (B,) >= 1: keys after it are padding.

    Returns (B, H, T, d).
    """
    B, H, T, d = q.shape
    S = k.shape[2]
    q = q / d ** 0.5
    run_max = torch.full((B, H, T), float("-inf"), device=q.device, dtype=q.dtype)
    run_sum = torch.zeros(B, H, T, device=q.device, dtype=q.dtype)
    acc = torch.zeros_like(q)

    for start in range(0, S, block):
        stop = min(start + block, S)
        s = torch.einsum("bhtd,bhsd->bhts", q, k[:, :, start:stop])
        if lengths is not None:
            pos = torch.arange(start, stop, device=q.device)
            s = s.masked_fill((pos[None, :] >= lengths[:, None])[:, None, None, :], float("-inf"))
        new_max = torch.maximum(run_max, s.amax(dim=-1))
        p = torch.exp(s - new_max[..., None])
        shrink = torch.exp(run_max - new_max)
        run_sum = run_sum * shrink + p.sum(dim=-1)
        acc = acc + torch.einsum("bhts,bhsd->bhtd", p, v[:, :, start:stop])
        run_max = new_max
    return acc / run_sum[..., None]
