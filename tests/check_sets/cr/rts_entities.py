import torch
import torch.nn as nn
import torch.nn.functional as F


class EntityBlock(nn.Module):
    """Pre-norm transformer block over the units on a strategy-game map."""

    def __init__(self, width=32, heads=4, p_drop=0.1):
        super().__init__()
        self.heads = heads
        self.p_drop = p_drop
        self.ln1, self.ln2 = nn.LayerNorm(width), nn.LayerNorm(width)
        self.qkv = nn.Linear(width, 3 * width)
        self.proj = nn.Linear(width, width)
        self.ff = nn.Sequential(nn.Linear(width, 2 * width), nn.GELU(), nn.Linear(2 * width, width))

    def attend(self, x, alive):
        b, n, w = x.shape
        q, k, v = self.qkv(x).view(b, n, 3, self.heads, w // self.heads).permute(2, 0, 3, 1, 4)
        some = alive.any(dim=1)
        # an empty map attends to its (blank) slots and is zeroed below
        allowed = alive | ~some[:, None]
        y = F.scaled_dot_product_attention(
            q, k, v,
            attn_mask=allowed[:, None, None, :],
            dropout_p=self.p_drop if self.training else 0.0,
        )
        return self.proj(y.transpose(1, 2).reshape(b, n, w))

    def forward(self, units, alive):
        """units (B, N, width); alive (B, N) bool, True where the slot holds a living unit.
        Dead slots are never attended to and come out as zeros; the map may be empty."""
        x = units + self.attend(self.ln1(units), alive)
        x = x + self.ff(self.ln2(x))
        return x * alive.unsqueeze(-1)
