"""Promoter recognition on DNA k-mers: convolution, then one layer of self-attention."""
import numpy as np
import torch
import torch.nn as nn


def one_hot(seq, length):
    """'ACGT..' -> float array (4, length), zeros for N and for the padding behind the sequence."""
    out = np.zeros((4, length), dtype=np.float32)
    for i, c in enumerate(seq[:length]):
        if c in "ACGT":
            out["ACGT".index(c), i] = 1
    return out


class GenomeAttention(nn.Module):
    """Scaled dot-product self-attention (Vaswani et al.), several heads.

    h (B, L, d_model); pad (B, L) bool, True where the sequence has ended. Positions with pad=True
    are excluded as keys. Returns (B, L, d_model) and the weights (B, heads, L, L) for the plots.
    """

    def __init__(self, d_model, heads):
        super().__init__()
        self.heads = heads
        self.Wq = nn.Linear(d_model, d_model, bias=False)
        self.Wk = nn.Linear(d_model, d_model, bias=False)
        self.Wv = nn.Linear(d_model, d_model, bias=False)
        self.Wo = nn.Linear(d_model, d_model)

    def forward(self, h, pad):
        B, L, D = h.shape
        q = self.Wq(h).view(B, L, self.heads, -1).permute(0, 2, 1, 3)
        k = self.Wk(h).view(B, L, self.heads, -1).permute(0, 2, 3, 1)
        v = self.Wv(h).view(B, L, self.heads, -1).permute(0, 2, 1, 3)
        scores = torch.matmul(q, k)
        scores = scores + pad[:, None, None, :].float()
        weights = torch.softmax(scores, dim=-1)
        out = torch.matmul(weights, v).permute(0, 2, 1, 3).contiguous().view(B, L, D)
        return self.Wo(out), weights


class PromoterNet(nn.Module):
    """x (B, 4, L) one-hot, lengths (B,) >= 1 -> probability of a promoter (B,)"""

    def __init__(self, d_model=32, heads=4, kernel=9):
        super().__init__()
        self.conv = nn.Conv1d(4, d_model, kernel, padding=kernel // 2)
        self.attn = GenomeAttention(d_model, heads)
        self.norm = nn.LayerNorm(d_model)
        self.cls = nn.Linear(d_model, 1)

    def forward(self, x, lengths):
        h = torch.relu(self.conv(x)).transpose(1, 2)
        pad = torch.arange(h.size(1), device=h.device)[None, :] >= lengths[:, None]
        a, _ = self.attn(h, pad)
        h = self.norm(h + a).masked_fill(pad.unsqueeze(-1), 0)
        return torch.sigmoid(self.cls(h.sum(1) / lengths[:, None])).squeeze(1)
