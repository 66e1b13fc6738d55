import torch
import torch.nn as nn


def rotate_half(x):
    a, b = x.chunk(2, dim=-1)
    return torch.cat((-b, a), dim=-1)


class RotaryCausalAttention(nn.Module):
    """Causal self-attention with rotary embeddings (half-split layout) and a KV cache.

    Feeding a sequence at once or token by token through the cache gives the same outputs.
    """

    def __init__(self, dim, heads, base=10000.0):
        super().__init__()
        self.heads, self.hd = heads, dim // heads
        self.qkv = nn.Linear(dim, 3 * dim, bias=False)
        self.out = nn.Linear(dim, dim, bias=False)
        freq = base ** (-torch.arange(0, self.hd, 2).float() / self.hd)
        self.register_buffer("freq", torch.cat([freq, freq]), persistent=False)

    def forward(self, x, past=None):
        """x: (B, L, dim) new tokens; past: (k, v), each (B, heads, P, hd), already rotated, or None."""
        B, L, D = x.shape
        q, k, v = self.qkv(x).view(B, L, 3, self.heads, self.hd).permute(2, 0, 3, 1, 4)
        angle = torch.arange(L, device=x.device)[:, None] * self.freq
        cos, sin = angle.cos(), angle.sin()
        q = q * cos + rotate_half(q) * sin
        k = k * cos + rotate_half(k) * sin
        if past is not None:
            k = torch.cat([past[0], k], dim=2)
            v = torch.cat([past[1], v], dim=2)
        S = k.size(2)
        s = q @ k.transpose(-1, -2) * self.hd ** -0.5
        ok = torch.ones(L, S, dtype=torch.bool, device=x.device).tril(S - L)
        p = s.masked_fill(~ok, float("-inf")).softmax(-1)
        return self.out((p @ v).transpose(1, 2).reshape(B, L, D)), (k, v)
