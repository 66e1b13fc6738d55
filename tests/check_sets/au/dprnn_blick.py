"""Dual-path separator: attention inside a chunk, then across chunks.

Input of the separator is the encoder's feature map [batch, feat, time]. We
cut it into half-overlapping chunks, run (intra, inter) blocks, and overlap-add.
"""
import math
import torch
import torch.nn as nn
import torch.nn.functional as F


def segment(x, K):
    """[B, N, T] -> [B, N, K, S] with hop K//2, plus the padding that was added."""
    P = K // 2
    gap = (P - (x.shape[-1] - K) % P) % P if x.shape[-1] > K else K - x.shape[-1]
    x = F.pad(x, (0, gap))
    return x.unfold(-1, K, P).transpose(2, 3).contiguous(), gap


def overlap_add(c, gap):
    B, N, K, S = c.shape
    P = K // 2
    T = K + (S - 1) * P
    flat = c.reshape(B, N * K, S)
    y = F.fold(flat, (1, T), (1, K), stride=(1, P)).squeeze(2)
    w = F.fold(torch.ones_like(flat), (1, T), (1, K), stride=(1, P)).squeeze(2)
    y = y / w
    return y[..., : T - gap] if gap else y


class PathAttention(nn.Module):
    """Self-attention along dim 1 of [rows, steps, feat]."""

    def __init__(self, feat, n_head=4, drop=0.0):
        super().__init__()
        assert feat % n_head == 0
        self.h = n_head
        self.pre = nn.LayerNorm(feat)
        self.in_proj = nn.Linear(feat, 3 * feat)
        self.out_proj = nn.Linear(feat, feat)
        self.drop = nn.Dropout(drop)

    def forward(self, x):
        R, L, D = x.shape
        q, k, v = self.in_proj(self.pre(x)).chunk(3, dim=-1)
        q = q.view(R, L, self.h, -1).transpose(1, 2)
        k = k.view(R, L, self.h, -1).permute(0, 2, 3, 1)
        v = v.view(R, L, self.h, -1).transpose(1, 2)
        w = torch.matmul(q, k).mul_(1.0 / math.sqrt(D // self.h))
        w = self.drop(w.softmax(-1))
        y = torch.matmul(w, v).transpose(1, 2).flatten(2)
        return x + self.out_proj(y)


class DualPathBlock(nn.Module):
    def __init__(self, feat, n_head=4):
        super().__init__()
        self.intra = PathAttention(feat, n_head)
        self.inter = PathAttention(feat, n_head)
        self.ff = nn.Sequential(nn.LayerNorm(feat), nn.Linear(feat, 2 * feat), nn.GELU(),
                                nn.Linear(2 * feat, feat))

    def forward(self, c):
        B, N, K, S = c.shape
        z = c.permute(0, 3, 2, 1).reshape(B * S, K, N)
        z = self.intra(z).view(B, S, K, N)
        z = z.transpose(1, 2).reshape(B * K, S, N)
        z = self.inter(z)
        z = z + self.ff(z)
        return z.view(B, K, S, N).permute(0, 3, 1, 2)


class Separator(nn.Module):
    def __init__(self, feat=64, K=50, blocks=2, speakers=2):
        super().__init__()
        self.K, self.speakers = K, speakers
        self.blocks = nn.ModuleList(DualPathBlock(feat) for _ in range(blocks))
        self.mask = nn.Conv1d(feat, feat * speakers, 1)

    def forward(self, feats):
        c, gap = segment(feats, self.K)
        for b in self.blocks:
            c = b(c)
        y = overlap_add(c, gap)
        m = torch.relu(self.mask(y)).chunk(self.speakers, dim=1)
        return [feats * mm for mm in m]
