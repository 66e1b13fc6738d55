import torch
import torch.nn as nn


class RegularisedAttention(nn.Module):
    """Dropout on the attention weights while training, none in evaluation."""

    def __init__(self, dim, heads=2, p=0.3):
        super().__init__()
        self.heads = heads
        self.p = p
        self.attn_drop = nn.Dropout(p)
        self.in_proj = nn.Linear(dim, 3 * dim)
        self.out_proj = nn.Linear(dim, dim)

    def train(self, mode: bool = True):
        super().train(mode)
        if not mode:
            self.attn_drop.p = 0.0
        return self

    def forward(self, x):
        b, n, c = x.shape
        q, k, v = self.in_proj(x).view(b, n, 3, self.heads, c // self.heads).permute(2, 0, 3, 1, 4)
        w = torch.softmax(q @ k.transpose(-1, -2) / (c // self.heads) ** 0.5, dim=-1)
        w = self.attn_drop(w)
        return self.out_proj((w @ v).transpose(1, 2).reshape(b, n, c))
