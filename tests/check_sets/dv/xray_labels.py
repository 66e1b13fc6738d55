"""Chest X-ray classifier head with one learned query per finding."""
import torch
import torch.nn as nn


class LabelQueryHead(nn.Module):
    """Each finding looks at the feature map on its own.

    feats: (B, C, H, W) output of the densenet trunk.
    lungs: optional bool (B, H, W), True = inside the lung field. Only those cells may be read
           (each image has at least one).
    Returns (logits, maps): logits (B, n_labels); maps (B, n_labels, H, W), the attention of each
    finding averaged over the heads, sums to 1 over the cells.
    """

    def __init__(self, channels=64, n_labels=14, dim=32, heads=4):
        super().__init__()
        self.reduce = nn.Conv2d(channels, dim, 1)
        self.queries = nn.Parameter(torch.randn(n_labels, dim))
        self.attn = nn.MultiheadAttention(dim, heads, batch_first=True)
        self.norm = nn.LayerNorm(dim)
        # one private weight vector per finding
        self.w = nn.Parameter(torch.randn(n_labels, dim) * dim ** -0.5)
        self.b = nn.Parameter(torch.zeros(n_labels))

    def forward(self, feats, lungs=None):
        B, _, H, W = feats.shape
        cells = self.reduce(feats).flatten(2).transpose(1, 2)      # (B, HW, dim)
        q = self.queries.unsqueeze(0).repeat(B, 1, 1)
        ignore = None if lungs is None else lungs.flatten(1).logical_not()
        read, maps = self.attn(q, cells, cells, key_padding_mask=ignore)
        z = self.norm(q + read)
        logits = (z * self.w).sum(-1) + self.b
        return logits, maps.view(B, -1, H, W)
