import torch
from torch import nn


def apply_rope(x, positions, theta=10000.0):
    """Interleaved rotary embedding; x (B, H, L, D), positions (L,)."""
    d = x.size(-1)
    freqs = theta ** (-torch.arange(0, d, 2, dtype=torch.float32) / d)
    ang = positions[:, None].float() * freqs
    c, s = torch.cos(ang), torch.sin(ang)
    x0, x1 = x[..., 0::2], x[..., 1::2]
    return torch.stack((x0 * c - x1 * s, x0 * s + x1 * c), dim=-1).flatten(-2)


class StreamingAttention(nn.Module):
    """Causal self-attention that can be fed piece by piece.

    Feeding a sequence in pieces gives the same outputs as feeding it whole;
    call reset() before a new sequence.
    """

    def __init__(self, dim, heads):
        super().__init__()
        self.heads = heads
        self.to_q = nn.Linear(dim, dim, bias=False)
        self.to_k = nn.Linear(dim, dim, bias=False)
        self.to_v = nn.Linear(dim, dim, bias=False)
        self.to_out = nn.Linear(dim, dim, bias=False)
        self.reset()

    def reset(self):
        self.k_cache = self.v_cache = None

    def forward(self, x):
        B, L, D = x.shape
        shape = lambda t: t.view(B, L, self.heads, D // self.heads).transpose(1, 2)
        q, k, v = shape(self.to_q(x)), shape(self.to_k(x)), shape(self.to_v(x))
        positions = torch.arange(L, device=x.device)
        q, k = apply_rope(q, positions), apply_rope(k, positions)
        if self.k_cache is not None:
            k = torch.cat((self.k_cache, k), dim=2)
            v = torch.cat((self.v_cache, v), dim=2)
        self.k_cache, self.v_cache = k, v
        total = k.size(2)
        blocked = torch.ones(L, total, dtype=torch.bool, device=x.device).triu(total - L + 1)
        scores = q @ k.transpose(-2, -1) / q.size(-1) ** 0.5
        probs = scores.masked_fill(blocked, float("-inf")).softmax(-1)
        return self.to_out((probs @ v).transpose(1, 2).reshape(B, L, D))
