"""Dialogue model of the game's characters; prompts come in chunks while the player types."""
import torch
import torch.nn as nn
import torch.nn.functional as F


class NPCAttention(nn.Module):
    """Causal self-attention with memory of the earlier chunks.

        y1, mem = layer(x1)           # x1 [B, T1, D]
        y2, mem = layer(x2, mem)      # x2 [B, T2, D], any T2 >= 1

    cat([y1, y2], 1) equals the output for cat([x1, x2], 1) in one call.
    """

    def __init__(self, D, heads):
        super().__init__()
        self.heads = heads
        self.qkv = nn.Linear(D, 3 * D)
        self.out = nn.Linear(D, D)

    def split(self, t):
        B, T, D = t.shape
        return t.view(B, T, self.heads, D // self.heads).transpose(1, 2)

    def forward(self, x, mem=None):
        q, k, v = map(self.split, self.qkv(x).chunk(3, dim=-1))
        if mem is not None:
            old_k, old_v = mem
            k = torch.cat([old_k, k], dim=2)
            v = torch.cat([old_v, v], dim=2)
        # a single new token may look at everything
        y = F.scaled_dot_product_attention(q, k, v, is_causal=x.shape[1] > 1)
        y = y.transpose(1, 2).reshape(x.shape)
        return self.out(y), (k, v)
