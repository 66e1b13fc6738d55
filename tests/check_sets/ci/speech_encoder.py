"""Speech encoder layer: depthwise conv front, self-attention over frames, padding-aware."""
import torch
import torch.nn as nn


def frame_mask(lengths, T):
    """(B,) -> (B, T) bool, True for real frames."""
    return torch.arange(T, device=lengths.device)[None, :] < lengths[:, None]


class FrameAttention(nn.Module):
    def __init__(self, dim, heads, dropout):
        super().__init__()
        self.heads = heads
        self.d_k = dim // heads
        self.linear_q = nn.Linear(dim, dim)
        self.linear_k = nn.Linear(dim, dim)
        self.linear_v = nn.Linear(dim, dim)
        self.linear_out = nn.Linear(dim, dim)
        self.drop = nn.Dropout(dropout)

    def forward(self, x, real):
        B, T, D = x.shape
        q = self.linear_q(x).view(B, T, self.heads, self.d_k).transpose(1, 2)
        k = self.linear_k(x).view(B, T, self.heads, self.d_k).transpose(1, 2)
        v = self.linear_v(x).view(B, T, self.heads, self.d_k).transpose(1, 2)
        scores = q @ k.transpose(-2, -1) / self.d_k ** 0.5
        real = real.unsqueeze(1).unsqueeze(-1)
        scores = scores.masked_fill(~real, torch.finfo(scores.dtype).min)
        attn = self.drop(scores.softmax(dim=-1))
        out = (attn @ v).transpose(1, 2).reshape(B, T, D)
        return self.linear_out(out)


class SpeechEncoderLayer(nn.Module):
    """feats (B, T, dim), lengths (B,): frames after the length are padding and no
    frame may attend to them. Returns (B, T, dim), zero in the padding."""

    def __init__(self, dim=24, heads=3, kernel=5, dropout=0.1):
        super().__init__()
        self.conv = nn.Conv1d(dim, dim, kernel, padding=kernel // 2, groups=dim)
        self.norm_conv = nn.LayerNorm(dim)
        self.norm_att = nn.LayerNorm(dim)
        self.att = FrameAttention(dim, heads, dropout)
        self.norm_ff = nn.LayerNorm(dim)
        self.ff = nn.Sequential(nn.Linear(dim, 4 * dim), nn.SiLU(), nn.Linear(4 * dim, dim))

    def forward(self, feats, lengths):
        real = frame_mask(lengths, feats.shape[1])
        keep = real.unsqueeze(-1).to(feats.dtype)
        x = feats * keep
        x = x + self.conv((self.norm_conv(x) * keep).transpose(1, 2)).transpose(1, 2)
        x = x + self.att(self.norm_att(x), real)
        x = x + self.ff(self.norm_ff(x))
        return x * keep
