"""Invoice layout: heat maps of fields (a DETR-like mask head).

FieldHeatmap(dim, heads).forward(fields, page, pad=None) -> (B, Q, heads, H, W)
    fields  (B, Q, dim)     one vector per field query
    page    (B, dim, H, W)  feature map
    pad     (B, H, W) bool, True = outside the page (padding), or None; never all True
For every field and every head the map is a softmax over the pixels inside the page (it sums to
one over H and W, zero outside), with logits q.k / sqrt(dim / heads).
"""
import torch
import torch.nn as nn
import torch.nn.functional as F


class FieldHeatmap(nn.Module):
    def __init__(self, dim, heads):
        super().__init__()
        self.heads = heads
        self.q_linear = nn.Linear(dim, dim)
        self.k_linear = nn.Linear(dim, dim)
        self.norm = float(dim / heads) ** -0.5

    def forward(self, fields, page, pad=None):
        q = self.q_linear(fields)
        w = self.k_linear.weight[:, :, None, None]
        k = F.conv2d(page, w, self.k_linear.bias)
        q = q.unflatten(-1, (self.heads, -1))
        k = k.unflatten(1, (self.heads, -1))
        maps = torch.einsum("bqnc,bnchw->bqnhw", q * self.norm, k)
        if pad is not None:
            maps = maps.masked_fill(pad[:, None, None], float("-inf"))
        return F.softmax(maps.flatten(2), dim=-1).view_as(maps)
