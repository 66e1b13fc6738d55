"""Instance masks for video clips: object queries make soft maps over the pixels, which a
small convolution turns into masks."""
import torch
import torch.nn as nn
import torch.nn.functional as F


class MapAttention(nn.Module):
    """Only the weights, no values. For each query and each head a distribution over all
    pixels of the frame.

    q:    [B, N, Dq]
    feat: [B, Df, H, W]
    pad:  bool [B, H, W], True where the frame was filled up
    out:  [B, N, heads, H, W]
    """

    def __init__(self, q_dim, f_dim, hidden, heads, dropout=0.0):
        super().__init__()
        self.heads = heads
        self.q_linear = nn.Linear(q_dim, hidden)
        self.k_linear = nn.Linear(f_dim, hidden)
        for lin in (self.q_linear, self.k_linear):
            nn.init.xavier_uniform_(lin.weight)
            nn.init.zeros_(lin.bias)
        self.norm_fact = (hidden / heads) ** -0.5
        self.dropout = nn.Dropout(dropout)

    def forward(self, q, feat, pad=None):
        q = self.q_linear(q)
        k = F.conv2d(feat, self.k_linear.weight[..., None, None], self.k_linear.bias)
        qh = q.view(q.shape[0], q.shape[1], self.heads, -1)
        kh = k.view(k.shape[0], self.heads, -1, k.shape[-2], k.shape[-1])
        weights = torch.einsum("bqnc,bnchw->bqnhw", qh * self.norm_fact, kh)
        if pad is not None:
            weights = weights.masked_fill(pad[:, None, None], torch.finfo(weights.dtype).min)
        weights = F.softmax(weights.flatten(2), dim=-1).view_as(weights)
        return self.dropout(weights)


class MaskHead(nn.Module):
    def __init__(self, heads, f_dim, width=16):
        super().__init__()
        self.reduce = nn.Conv2d(f_dim, width, 1)
        self.body = nn.Sequential(
            nn.Conv2d(width + heads, width, 3, padding=1), nn.GroupNorm(4, width), nn.ReLU(),
            nn.Conv2d(width, width, 3, padding=1), nn.GroupNorm(4, width), nn.ReLU(),
        )
        self.last = nn.Conv2d(width, 1, 1)

    def forward(self, feat, maps):
        B, N = maps.shape[:2]
        f = self.reduce(feat)[:, None].expand(-1, N, -1, -1, -1)
        x = torch.cat([f, maps], 2).flatten(0, 1)
        return self.last(self.body(x)).view(B, N, *maps.shape[-2:])


class ClipMasks(nn.Module):
    """The same query follows one object through the clip."""

    def __init__(self, q_dim=32, f_dim=32, heads=4):
        super().__init__()
        self.attn = MapAttention(q_dim, f_dim, 32, heads)
        self.head = MaskHead(heads, f_dim)

    def forward(self, queries, clip_feat, pad=None):
        """queries [B, N, q_dim], clip_feat [B, T, f_dim, H, W], pad [B, T, H, W]"""
        out = []
        for t in range(clip_feat.shape[1]):
            m = self.attn(queries, clip_feat[:, t], None if pad is None else pad[:, t])
            out.append(self.head(clip_feat[:, t], m))
        return torch.stack(out, 2)


def dice(logits, target, eps=1.0):
    p = logits.sigmoid().flatten(1)
    t = target.flatten(1).to(p.dtype)
    return (1 - (2 * (p * t).sum(1) + eps) / (p.sum(1) + t.sum(1) + eps)).mean()
