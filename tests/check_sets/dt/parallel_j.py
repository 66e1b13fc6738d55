"""GPT-J style parallel block.

    y = x + Attn(LN(x)) + MLP(LN(x))

One LayerNorm feeds both branches, and one fused projection makes q, k, v and the hidden
layer of the MLP at the same time (columns in this order: q, k, v, mlp). Causal attention,
scale 1/sqrt(head_dim), rotary embedding on the first `rot` channels of every head in the
*interleaved* layout of GPT-J: channels (0,1), (2,3), ... are the rotated pairs and pair i
turns by  pos * 10000^(-2i/rot).
"""
import math
import torch
from torch import nn
import torch.nn.functional as F


def gptj_rotate(x, rot, base=10000.0):
    """x (B, T, H, d); rotates x[..., :rot], leaves the rest alone."""
    T = x.size(1)
    freq = base ** (-torch.arange(0, rot, 2, dtype=torch.float32) / rot)
    ang = torch.outer(torch.arange(T, dtype=torch.float32), freq).to(x)
    sin = ang.sin()[None, :, None, :].repeat_interleave(2, dim=-1)
    cos = ang.cos()[None, :, None, :].repeat_interleave(2, dim=-1)
    r, keep = x[..., :rot], x[..., rot:]
    swapped = torch.stack((-r[..., 1::2], r[..., 0::2]), dim=-1).flatten(-2)
    return torch.cat((r * cos + swapped * sin, keep), dim=-1)


class ParallelBlock(nn.Module):
    """x (B, T, D) -> (B, T, D)."""

    def __init__(self, D, n_head, rot=8, p_drop=0.0):
        super().__init__()
        self.nh, self.hd, self.rot = n_head, D // n_head, rot
        self.ln = nn.LayerNorm(D)
        self.fused = nn.Linear(D, 3 * D + 4 * D)
        self.attn_out = nn.Linear(D, D, bias=False)
        self.mlp_out = nn.Linear(4 * D, D)
        self.p_drop = p_drop

    def forward(self, x):
        B, T, D = x.shape
        q, k, v, m = self.fused(self.ln(x)).split([D, D, D, 4 * D], dim=-1)
        q, k, v = (t.view(B, T, self.nh, self.hd) for t in (q, k, v))
        q, k = gptj_rotate(q, self.rot), gptj_rotate(k, self.rot)
        s = torch.einsum("bihd,bjhd->bhij", q, k) / math.sqrt(self.hd)
        future = torch.ones(T, T, dtype=torch.bool, device=x.device).triu(1)
        p = s.masked_fill(future, float("-inf")).softmax(-1)
        p = F.dropout(p, self.p_drop, self.training)
        a = torch.einsum("bhij,bjhd->bihd", p, v).reshape(B, T, D)
        return x + self.attn_out(a) + self.mlp_out(F.gelu(m))
