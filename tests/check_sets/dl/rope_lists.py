"""Minimal GPT with rotary embedding for a blog post; caches are lists, one per layer.

Rotary embedding of the GPT-NeoX / Llama-HF kind: dimension i is paired with i + d/2, and both
turn by the angle pos * base**(-2i/d), i = 0 .. d/2 - 1.
"""
import torch
from torch import nn
from torch.nn import functional as F


def angles(positions, d, base=10000.0):
    """(T,) -> cos, sin, each (T, d)."""
    freq = base ** (-torch.arange(0, d, 2).float() / d)
    table = positions.float()[:, None] * freq[None, :]
    table = table.repeat_interleave(2, dim=-1)
    return table.cos(), table.sin()


def apply_rotary(x, cos, sin):
    left, right = x.chunk(2, dim=-1)
    return x * cos + torch.cat((-right, left), dim=-1) * sin


class Block(nn.Module):
    def __init__(self, dim, heads):
        super().__init__()
        self.heads = heads
        self.norm = nn.LayerNorm(dim)
        self.qkv = nn.Linear(dim, 3 * dim, bias=False)       # q | k | v
        self.proj = nn.Linear(dim, dim, bias=False)

    def forward(self, x, kv):
        """x (B, T, dim); kv: this layer's list, [] at first, then [k, v] with the earlier
        tokens (B, H, P, d); it is updated.  Returns x + attention(norm(x)); causal over all
        P + T tokens."""
        b, t, dim = x.shape
        q, k, v = self.qkv(self.norm(x)).view(b, t, 3, self.heads, -1).permute(2, 0, 3, 1, 4)
        past = kv[0].shape[2] if kv else 0
        cos, sin = angles(torch.arange(past, past + t), q.shape[-1])
        q, k = apply_rotary(q, cos, sin), apply_rotary(k, cos, sin)
        if kv:
            k, v = torch.cat((kv[0], k), 2), torch.cat((kv[1], v), 2)
        kv[:] = [k, v]
        mask = torch.ones(t, past + t, dtype=torch.bool).tril(past)
        y = F.scaled_dot_product_attention(q, k, v, attn_mask=mask)
        return x + self.proj(y.transpose(1, 2).reshape(b, t, dim))


class MiniGPT(nn.Module):
    def __init__(self, dim=32, heads=2, layers=2):
        super().__init__()
        self.blocks = nn.ModuleList(Block(dim, heads) for _ in range(layers))

    def forward(self, x, caches):
        """caches: list of one list per layer."""
        for block, kv in zip(self.blocks, caches):
            x = block(x, kv)
        return x
