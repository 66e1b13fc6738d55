"""Macaron encoder layer (half FFN - attention - half FFN), pre-norm.

The data loader of this repo hands over batches as (B, T, C) with the true
number of frames per utterance; the attention of torch works time-major.

    MacaronLayer(C, heads, hidden, drop)
    x       (B, T, C)
    n_frames (B,) int64, 1 <= n_frames <= T: frames at index >= n_frames[b] are
             padding and are read by nobody
    returns (B, T, C); padded frames of the output are zero
"""
import torch
import torch.nn as nn


def ffn(C, hidden, drop):
    return nn.Sequential(nn.LayerNorm(C), nn.Linear(C, hidden), nn.SiLU(),
                         nn.Dropout(drop), nn.Linear(hidden, C), nn.Dropout(drop))


class MacaronLayer(nn.Module):
    def __init__(self, C, heads, hidden, drop=0.1):
        super().__init__()
        self.f1 = ffn(C, hidden, drop)
        self.f2 = ffn(C, hidden, drop)
        self.na = nn.LayerNorm(C)
        self.att = nn.MultiheadAttention(C, heads, dropout=drop)
        self.da = nn.Dropout(drop)
        self.out = nn.LayerNorm(C)

    def forward(self, x, n_frames):
        T = x.size(1)
        is_pad = torch.arange(T, device=x.device).unsqueeze(0) >= n_frames.unsqueeze(1)
        x = x + 0.5 * self.f1(x)
        y = self.na(x).transpose(0, 1)                      # (T, B, C)
        y, _ = self.att(y, y, y, key_padding_mask=is_pad, need_weights=False)
        x = x + self.da(y).transpose(0, 1)
        x = x + 0.5 * self.f2(x)
        return self.out(x).masked_fill(is_pad.unsqueeze(-1), 0.0)
