"""Moment localisation: text tokens look for clips in an untrimmed video."""
import torch
from torch import nn


class CrossModalReader(nn.Module):
    """Words (queries) attend to clips; every head has its own distribution over the
    clips of the video.

    words [B, W, C], clips [B, T, C], clip_pad [B, T] bool with True = padded clip.
    Returns the mixed words and the maps [B, H, W, T].
    """

    def __init__(self, dim, num_heads, dropout=0.0):
        super().__init__()
        self.num_heads = num_heads
        self.to_q = nn.Linear(dim, dim)
        self.to_kv = nn.Linear(dim, 2 * dim)
        self.proj = nn.Linear(dim, dim)
        self.attn_drop = nn.Dropout(dropout)
        self.scale = (dim // num_heads) ** -0.5

    def forward(self, words, clips, clip_pad=None):
        B, W, C = words.shape
        T, H = clips.shape[1], self.num_heads
        q = self.to_q(words).reshape(B, W, H, C // H)
        k, v = self.to_kv(clips).reshape(B, T, 2, H, C // H).unbind(2)
        sim = torch.einsum("bwhc,bthc->bwht", q * self.scale, k)
        if clip_pad is not None:
            sim = sim.masked_fill(clip_pad[:, None, None, :], torch.finfo(sim.dtype).min)
        att = sim.flatten(2).softmax(dim=-1).view_as(sim)
        mixed = torch.einsum("bwht,bthc->bwhc", self.attn_drop(att), v).flatten(2)
        return self.proj(mixed), att.permute(0, 2, 1, 3)


class BoundaryHead(nn.Module):
    def __init__(self, dim):
        super().__init__()
        self.start = nn.Linear(dim, 1)
        self.end = nn.Linear(dim, 1)

    def forward(self, x, pad):
        s, e = self.start(x).squeeze(-1), self.end(x).squeeze(-1)
        if pad is not None:
            s, e = s.masked_fill(pad, -1e4), e.masked_fill(pad, -1e4)
        return s, e


class Localizer(nn.Module):
    def __init__(self, text_dim, clip_dim, dim=32, heads=4):
        super().__init__()
        self.text = nn.Linear(text_dim, dim)
        self.clip = nn.Sequential(nn.Linear(clip_dim, dim), nn.ReLU(), nn.LayerNorm(dim))
        self.reader = CrossModalReader(dim, heads)
        self.norm = nn.LayerNorm(dim)
        self.fuse = nn.Linear(2 * dim, dim)
        self.boundary = BoundaryHead(dim)

    def forward(self, text, video, clip_pad=None):
        w, c = self.text(text), self.clip(video)
        r, maps = self.reader(w, c, clip_pad)
        sent = self.norm(w + r).mean(1, keepdim=True).expand_as(c)
        return (*self.boundary(torch.relu(self.fuse(torch.cat([c, sent], -1))), clip_pad), maps)


def temporal_iou(a, b):
    inter = (torch.minimum(a[..., 1], b[..., 1]) - torch.maximum(a[..., 0], b[..., 0])).clamp(min=0)
    union = torch.maximum(a[..., 1], b[..., 1]) - torch.minimum(a[..., 0], b[..., 0])
    return inter / union.clamp(min=1e-6)
