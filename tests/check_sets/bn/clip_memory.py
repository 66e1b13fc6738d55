"""Space-time memory for semi-supervised video object segmentation.

Key features of past frames form the memory; the current frame asks.  Similarity is
the negative squared L2 distance (|q|^2 is left out, it is the same for all memory
elements), scaled by 1/sqrt(C).  Affinity [B, THW, HW] adds up to one over the memory
elements, that is over dim 1.
"""
import math
from typing import Optional

import torch
import torch.nn as nn
import torch.nn.functional as F


def similarity(mk: torch.Tensor, qk: torch.Tensor) -> torch.Tensor:
    """mk [B, C, THW], qk [B, C, HW] -> [B, THW, HW]"""
    a_sq = mk.pow(2).sum(1).unsqueeze(2)
    ab = mk.transpose(1, 2) @ qk
    return (2 * ab - a_sq) / math.sqrt(mk.shape[1])


class MemoryReader(nn.Module):
    """Read values for the current frame out of the memory.

    Several objects share the keys of a frame, so the affinity is computed once
    and kept for the following objects.
    """

    def __init__(self):
        super().__init__()
        self._tag = None
        self._affinity: Optional[torch.Tensor] = None

    def affinity(self, mk, qk):
        tag = (mk.data_ptr(), tuple(mk.shape), mk._version)
        if tag != self._tag:
            sim = similarity(mk.flatten(2), qk.flatten(2))
            sim = sim - sim.amax(dim=1, keepdim=True)
            e = sim.exp()
            self._affinity = e / e.sum(dim=1, keepdim=True)
            self._tag = tag
        return self._affinity

    def forward(self, mk, qk, mv, qv):
        """mk [B,Ck,T,H,W]  qk [B,Ck,H,W]  mv [B,Cv,T,H,W]  qv [B,Cv,H,W]"""
        B, Cv, T, H, W = mv.shape
        read = mv.flatten(2) @ self.affinity(mk, qk)
        return torch.cat([read.view(B, Cv, H, W), qv], dim=1)


class KeyProjection(nn.Module):
    def __init__(self, c_in, c_key):
        super().__init__()
        self.key = nn.Conv2d(c_in, c_key, 3, padding=1)
        nn.init.orthogonal_(self.key.weight)
        nn.init.zeros_(self.key.bias)

    def forward(self, x):
        return self.key(x)


class Bank:
    """Memory of at most `cap` frames, every `every`-th frame is stored."""

    def __init__(self, cap=5, every=3):
        self.cap, self.every = cap, every
        self.k = self.v = None

    def maybe_add(self, i, k, v):
        if i % self.every:
            return
        k, v = k.unsqueeze(2), v.unsqueeze(2)
        self.k = k if self.k is None else torch.cat([self.k, k], 2)[:, :, -self.cap:]
        self.v = v if self.v is None else torch.cat([self.v, v], 2)[:, :, -self.cap:]


class Tracker(nn.Module):
    def __init__(self, c=16, ck=8, cv=12):
        super().__init__()
        self.backbone = nn.Conv2d(3, c, 4, stride=4)
        self.to_key = KeyProjection(c, ck)
        self.to_val = nn.Conv2d(c + 1, cv, 1)
        self.q_val = nn.Conv2d(c, cv, 1)
        self.reader = MemoryReader()
        self.head = nn.Conv2d(2 * cv, 1, 1)

    @torch.no_grad()
    def forward(self, frames, first_mask):
        bank, masks, prev = Bank(), [], first_mask
        for i, f in enumerate(frames.unbind(1)):
            x = self.backbone(f)
            k = self.to_key(x)
            if i > 0:
                m = self.head(self.reader(bank.k, k, bank.v, self.q_val(x))).sigmoid()
                prev = F.interpolate(m, scale_factor=4, mode="bilinear")
            masks.append(prev)
            small = F.adaptive_avg_pool2d(prev, x.shape[-2:])
            bank.maybe_add(i, k, self.to_val(torch.cat([x, small], 1)))
        return torch.stack(masks, 1)
