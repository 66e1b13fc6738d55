"""Soft maps for the panoptic head: where does each object query look?"""
import torch
import torch.nn.functional as F
from torch import nn


class FuzzMaps(nn.Module):
    """Attention maps without values.

    objs   (B, Q, C)       object queries
    pic    (B, C, h, w)    encoder features
    blank  (B, h, w) bool  True where the picture is padding
    returns (B, Q, N, h, w): for every query and every one of the N heads a map over
            the pixels that sums to one and is zero on blank pixels.

    Scores are dot products of width C/N, scaled by 1/sqrt(C/N).
    """

    def __init__(self, C, N):
        super().__init__()
        self.N = N
        self.ql = nn.Linear(C, C)
        self.kl = nn.Linear(C, C)
        self.norm = (C / N) ** -0.5

    def forward(self, objs, pic, blank=None):
        q = self.ql(objs)
        k = F.conv2d(pic, self.kl.weight[..., None, None], self.kl.bias)
        qh = q.view(*q.shape[:2], self.N, -1)
        kh = k.view(k.shape[0], self.N, -1, *k.shape[-2:])
        w = torch.einsum("bqnc,bnchw->bqnhw", qh * self.norm, kh)
        if blank is not None:
            w = w.masked_fill(blank[:, None, None], float("-inf"))
        return F.softmax(w.flatten(2), dim=-1).view_as(w)


class MaskConv(nn.Module):
    """(B, Q, N, h, w) maps + (B, C, h, w) features -> (B, Q, h, w) mask logits."""

    def __init__(self, C, N, mid=16):
        super().__init__()
        self.a = nn.Conv2d(C + N, mid, 3, padding=1)
        self.b = nn.Conv2d(mid, 1, 3, padding=1)

    def forward(self, maps, pic):
        B, Q = maps.shape[:2]
        x = torch.cat([pic[:, None].expand(-1, Q, -1, -1, -1), maps], 2).flatten(0, 1)
        return self.b(torch.relu(self.a(x))).view(B, Q, *pic.shape[-2:])
