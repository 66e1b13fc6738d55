"""Axial attention: one pass along the rows, one along the columns, added up.

AxialPair(chan, heads)(img) : img (B, chan, H, W) -> (B, chan, H, W)

Each pass is an ordinary multi-head self-attention in which a pixel sees only the pixels of its
own row (or column), itself included; the two passes have their own projections and their outputs
are mixed as  g * rows + (1 - g) * cols,  g = sigmoid(gate), one gate per channel.
"""
import torch
import torch.nn as nn


class LineAttention(nn.Module):
    """(lines, length, chan) -> same; lines do not see one another."""

    def __init__(self, chan, heads):
        super().__init__()
        self.heads = heads
        self.q = nn.Conv1d(chan, chan, 1, bias=False)
        self.kv = nn.Conv1d(chan, 2 * chan, 1, bias=False)
        self.o = nn.Conv1d(chan, chan, 1)

    def forward(self, t):
        n, length, c = t.shape
        t = t.transpose(1, 2)                              # conv wants n, chan, length
        d = c // self.heads
        q = self.q(t).view(n * self.heads, d, length)      # channel = head * d + i
        k, v = self.kv(t).chunk(2, dim=1)
        k = k.reshape(n * self.heads, d, length)
        v = v.reshape(n * self.heads, d, length)
        # rows of `a` are KEYS here, columns are queries
        a = torch.bmm(k.transpose(1, 2), q).div(d ** 0.5).softmax(dim=1)
        y = torch.bmm(v, a).view(n, c, length)
        return self.o(y).transpose(1, 2)


class AxialPair(nn.Module):
    def __init__(self, chan, heads):
        super().__init__()
        self.rows = LineAttention(chan, heads)
        self.cols = LineAttention(chan, heads)
        self.gate = nn.Parameter(torch.zeros(chan))

    def forward(self, img):
        b, c, h, w = img.shape
        r = self.rows(img.permute(0, 2, 3, 1).reshape(b * h, w, c))
        r = r.view(b, h, w, c).permute(0, 3, 1, 2)
        s = self.cols(img.permute(0, 3, 2, 1).reshape(b * w, h, c))
        s = s.view(b, w, h, c).permute(0, 3, 2, 1)
        g = torch.sigmoid(self.gate).view(1, -1, 1, 1)
        return g * r + (1 - g) * s
