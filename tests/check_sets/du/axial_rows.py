"""Axial attention for feature maps: first along every row, then along every column.

Full attention over H*W pixels did not fit, so each pixel attends to the W pixels of its row
and afterwards to the H pixels of its column (two residual layers).  nn.MultiheadAttention
does the work, the rest is moving axes.
"""
import torch
from torch import nn


class AxialLayer(nn.Module):
    """fmap: (B, C, H, W) -> (B, C, H, W)

    `hole` (B, H, W) bool, True = pixel without data; such pixels are not attended to.
    A line that consists of holes only is left as it is (no update).
    """

    def __init__(self, C, heads=4):
        super().__init__()
        self.norm_w = nn.LayerNorm(C)
        self.norm_h = nn.LayerNorm(C)
        self.along_w = nn.MultiheadAttention(C, heads, batch_first=True)
        self.along_h = nn.MultiheadAttention(C, heads, batch_first=True)

    @staticmethod
    def _lines(x, hole, norm, mha):
        # x (B, lines, length, C); each line is a sequence of its own
        B, n, L, C = x.shape
        seq = norm(x).reshape(B * n, L, C)
        if hole is None:
            upd = mha(seq, seq, seq, need_weights=False)[0]
        else:
            h = hole.reshape(B * n, L)
            dead = h.all(dim=1)
            h = h & ~dead[:, None]                      # avoid a softmax over nothing
            upd = mha(seq, seq, seq, key_padding_mask=h, need_weights=False)[0]
            upd = upd.masked_fill(dead[:, None, None], 0.0)
        return x + upd.reshape(B, n, L, C)

    def forward(self, fmap, hole=None):
        x = fmap.permute(0, 2, 3, 1)                    # B H W C
        x = self._lines(x, hole, self.norm_w, self.along_w)
        x = x.transpose(1, 2)                           # B W H C
        hole_t = None if hole is None else hole.transpose(1, 2)
        x = self._lines(x, hole_t, self.norm_h, self.along_h)
        return x.permute(0, 3, 2, 1)                    # B W H C -> B C H W
