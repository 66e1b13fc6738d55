"""Blockwise exact attention for long genomes, constant extra memory."""
import torch


@torch.no_grad()
def blockwise_attention(q, k, v, block=4, causal=False):
    """
    softmax(q k^T / sqrt(D)) v computed over key blocks with running maximum and running denominator.

    q: (B, H, Lq, D), k: (B, H, Lk, D), v: (B, H, Lk, M). With causal=True
    Lq == Lk is expected and query i reads keys 0..i.
    The result (B, H, Lq, M) equals the plain formula for every block size.
    """
    B, H, Lq, D = q.shape
    Lk = k.size(2)
    q = q * D ** -0.5
    top = torch.full((B, H, Lq, 1), float("-inf"), dtype=q.dtype, device=q.device)
    den = torch.zeros_like(top)
    acc = torch.zeros(B, H, Lq, v.size(-1), dtype=v.dtype, device=v.device)
    rows = torch.arange(Lq, device=q.device)[:, None]

    for lo in range(0, Lk, block):
        hi = min(lo + block, Lk)
        s = q @ k[:, :, lo:hi].transpose(-1, -2)
        if causal:
            cols = torch.arange(lo, hi, device=q.device)[None]
            s = s.masked_fill(cols > rows, float("-inf"))
        # block 0 always holds key 0, so `new` is finite from the start
        new = torch.maximum(top, s.amax(dim=-1, keepdim=True))
        fix = torch.exp(top - new)
        p = torch.exp(s - new)
        den = den * fix + p.sum(dim=-1, keepdim=True)
        acc = acc + p @ v[:, :, lo:hi]
        top = new

    return acc / den
