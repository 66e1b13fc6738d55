"""Axial attention for panoramic depth maps.

Every pixel first attends to the pixels of its own row, then (on the result) to those of its
own column. Both steps are residual and pre-normed. Missing depth is given by

    hole: (B, H, W) bool, True = no measurement. Such a pixel is never used as a key. A row or
          column that has holes only contributes nothing (zero is added).

x: (B, C, H, W) -> (B, C, H, W)
"""
import torch
import torch.nn as nn


class AxisAttention(nn.Module):
    def __init__(self, channels, heads):
        super().__init__()
        self.norm = nn.LayerNorm(channels)
        self.mha = nn.MultiheadAttention(channels, heads, batch_first=True)

    def forward(self, lines, dead):
        """lines (N, L, C), dead (N, L) -> what is to be added, (N, L, C)"""
        y = self.norm(lines)
        all_dead = dead.all(dim=1, keepdim=True)
        # let an entirely dead line look at itself, it is zeroed right after
        out, _ = self.mha(y, y, y, key_padding_mask=dead & ~all_dead, need_weights=False)
        return out.masked_fill(all_dead[..., None], 0.0)


class AxialBlock(nn.Module):
    def __init__(self, channels=32, heads=4):
        super().__init__()
        self.row = AxisAttention(channels, heads)
        self.col = AxisAttention(channels, heads)

    def forward(self, x, hole):
        B, C, H, W = x.shape
        rows = x.permute(0, 2, 3, 1).reshape(B * H, W, C)
        rows = rows + self.row(rows, hole.reshape(B * H, W))
        x = rows.view(B, H, W, C)

        cols = x.transpose(1, 2).reshape(B * W, H, C)
        cols = cols + self.col(cols, hole.transpose(1, 2).reshape(B * W, H))
        return cols.view(B, W, H, C).permute(0, 3, 2, 1)
