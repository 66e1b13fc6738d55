"""Arrhythmia detection from 12-lead ECG: attention across heart beats."""
import torch
import torch.nn.functional as F
from torch import nn

LEADS = 12
CLASSES = ("SR", "AF", "AVB", "LBBB", "RBBB")


class BeatEncoder(nn.Module):
    def __init__(self, dim):
        super().__init__()
        self.net = nn.Sequential(
            nn.Conv1d(LEADS, dim, 7, stride=2, padding=3), nn.BatchNorm1d(dim), nn.ReLU(),
            nn.Conv1d(dim, dim, 5, stride=2, padding=2), nn.ReLU(), nn.AdaptiveAvgPool1d(1),
        )

    def forward(self, beats):  # B, N, LEADS, S
        b, n = beats.shape[:2]
        return self.net(beats.flatten(0, 1)).view(b, n, -1)


class BeatAttention(nn.Module):
    """Self-attention across beats. In training mode attention weights are dropped with
    rate attn_drop, in evaluation mode nothing is dropped."""

    def __init__(self, dim: int, heads: int = 4, attn_drop: float = 0.1):
        super().__init__()
        self.heads = heads
        self.attn_drop = attn_drop
        self.to_qkv = nn.Linear(dim, 3 * dim)
        self.to_out = nn.Linear(dim, dim)

    def train(self, mode: bool = True):
        super().train(mode)
        if not mode:
            self.attn_drop = 0.0
        return self

    def forward(self, x):
        b, n, d = x.shape
        q, k, v = self.to_qkv(x).view(b, n, 3, self.heads, -1).permute(2, 0, 3, 1, 4).unbind(0)
        s = torch.einsum("bhid,bhjd->bhij", q, k) * q.shape[-1] ** -0.5
        w = s.softmax(-1)
        w = F.dropout(w, self.attn_drop, self.training)
        return self.to_out(torch.einsum("bhij,bhjd->bihd", w, v).reshape(b, n, d))


class ArrhythmiaNet(nn.Module):
    def __init__(self, dim=32):
        super().__init__()
        self.enc = BeatEncoder(dim)
        self.att = BeatAttention(dim)
        self.head = nn.Linear(dim, len(CLASSES))

    def forward(self, beats):
        z = self.enc(beats)
        return self.head((z + self.att(z)).mean(1))
