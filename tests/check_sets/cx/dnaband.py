import math
import torch
import torch.nn as nn


class BandedReader(nn.Module):
    """Local attention along a DNA read.

    reach : number of neighbours which a base sees on each side, in addition to itself
            (reach=0: only itself, reach=3: up to 7 bases)
    anchors : optional bool [L], bases that everybody sees and that see everybody
    x [B, L, D] -> [B, L, D]
    """

    def __init__(self, D, heads, reach):
        super().__init__()
        self.heads = heads
        self.reach = reach
        self.qkv = nn.ModuleList([nn.Linear(D, D) for _ in range(3)])
        self.last = nn.Linear(D, D)

    def band(self, L, anchors, device):
        pos = torch.arange(L, device=device)
        near = (pos[:, None] - pos[None, :]).abs() < max(self.reach, 1)
        if anchors is not None:
            near = near | anchors[:, None] | anchors[None, :]
        return near

    def forward(self, x, anchors=None):
        B, L, D = x.shape
        q, k, v = (f(x).view(B, L, self.heads, -1).transpose(1, 2) for f in self.qkv)
        s = q.matmul(k.transpose(2, 3)) / math.sqrt(q.size(-1))
        s = s.masked_fill(~self.band(L, anchors, x.device), -float("inf"))
        y = s.softmax(-1).matmul(v)
        return self.last(y.transpose(1, 2).reshape(B, L, D))
