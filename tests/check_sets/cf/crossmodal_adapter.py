"""Adapter that lets text states read image regions (trained on a frozen LM).

Heads are folded into the batch for ``torch.bmm``.  The batch mixes pictures with
different numbers of detected regions; ``region_mask`` is True for the regions
that exist, and each sample reads only its own.
"""
import torch
import torch.nn as nn


class CrossModalAdapter(nn.Module):
    def __init__(self, text_dim=48, region_dim=64, width=32, num_heads=4):
        super().__init__()
        assert width % num_heads == 0
        self.num_heads = num_heads
        self.head_dim = width // num_heads
        self.norm = nn.LayerNorm(text_dim)
        self.query = nn.Linear(text_dim, width)
        self.key = nn.Linear(region_dim, width)
        self.value = nn.Linear(region_dim, width)
        self.up = nn.Linear(width, text_dim)

    def fold(self, t):
        # [B, L, H*d] -> [B*H, L, d]
        bsz, length, _ = t.shape
        t = t.view(bsz, length, self.num_heads, self.head_dim)
        return t.transpose(1, 2).reshape(bsz * self.num_heads, length, self.head_dim)

    def unfold(self, t, bsz):
        # [B*H, L, d] -> [B, L, H*d]
        t = t.view(bsz, self.num_heads, -1, self.head_dim)
        return t.transpose(1, 2).reshape(bsz, -1, self.num_heads * self.head_dim)

    def forward(self, text, regions, region_mask=None):
        """
        text         [B, T, text_dim]
        regions      [B, R, region_dim]
        region_mask  [B, R] bool, at least one True per sample
        """
        bsz = text.size(0)
        q = self.fold(self.query(self.norm(text))) * self.head_dim ** -0.5
        k = self.fold(self.key(regions))
        v = self.fold(self.value(regions))

        scores = torch.bmm(q, k.transpose(1, 2))
        if region_mask is not None:
            mask = region_mask.unsqueeze(1).repeat(self.num_heads, 1, 1)
            scores = scores.masked_fill(~mask, float("-inf"))
        weights = torch.softmax(scores, dim=-1)
        read = self.unfold(torch.bmm(weights, v), bsz)
        return text + self.up(read)


if __name__ == "__main__":
    net = CrossModalAdapter()
    m = torch.arange(10)[None] < torch.tensor([10, 3, 7])[:, None]
    print(net(torch.randn(3, 6, 48), torch.randn(3, 10, 64), m).shape)
