"""Heartbeat classifier: 12-lead ECG cut into beats, one vector per beat."""
import torch
import torch.nn as nn


class BeatStack(nn.Module):
    """beats: (patients, beats, width) -> (patients, classes).

    Each patient is handled on its own, so results do not depend on who else is in the batch.
    """

    def __init__(self, width, heads, depth, classes):
        super().__init__()
        self.depth = depth
        self.embed = nn.Linear(width, width)
        self.attn = []
        self.norm = nn.ModuleList()
        for _ in range(depth):
            self.attn.append(nn.MultiheadAttention(width, heads))
            self.norm.append(nn.LayerNorm(width))
        self.head = nn.Linear(width, classes)

    def trainable(self):
        """number of weights given to the optimiser"""
        return sum(p.numel() for p in self.parameters() if p.requires_grad)

    def forward(self, beats):
        x = self.embed(beats)
        for i in range(self.depth):
            y, _ = self.attn[i](x, x, x, need_weights=False)
            x = self.norm[i](x + y)
        return self.head(x.mean(dim=1))
