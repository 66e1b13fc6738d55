"""Self-attention module of a Conformer speech encoder (without relative positions)."""
import math

import torch
import torch.nn as nn


class ConformerSelfAttention(nn.Module):
    """
    frames  (B, T, d_model) subsampled filterbank features, padded behind the end of the utterance
    n_frames (B,) true number of frames per utterance, at least 1

    Frames behind the end are not heard by the others: the output at t < n_frames[b] depends only on
    frames before n_frames[b]. Outputs behind the end are set to 0.
    """

    def __init__(self, d_model=32, n_head=4, dropout=0.1):
        super().__init__()
        self.d_k = d_model // n_head
        self.h = n_head
        self.norm = nn.LayerNorm(d_model)
        self.linear_q = nn.Linear(d_model, d_model)
        self.linear_k = nn.Linear(d_model, d_model)
        self.linear_v = nn.Linear(d_model, d_model)
        self.linear_out = nn.Linear(d_model, d_model)
        self.dropout = nn.Dropout(dropout)

    def forward_qkv(self, x):
        n = x.size(0)
        q = self.linear_q(x).view(n, -1, self.h, self.d_k)
        k = self.linear_k(x).view(n, -1, self.h, self.d_k)
        v = self.linear_v(x).view(n, -1, self.h, self.d_k)
        return q.transpose(1, 2), k.transpose(1, 2), v.transpose(1, 2)

    def forward(self, frames, n_frames):
        x = self.norm(frames)
        q, k, v = self.forward_qkv(x)
        scores = torch.matmul(q, k.transpose(-2, -1)) / math.sqrt(self.d_k)
        t = torch.arange(frames.size(1), device=frames.device)
        pad = t.unsqueeze(0) >= n_frames.unsqueeze(1)              # (B, T)
        mask = pad.unsqueeze(1).unsqueeze(3)                       # for (B, h, T, T)
        min_value = torch.finfo(scores.dtype).min
        scores = scores.masked_fill(mask, min_value)
        attn = torch.softmax(scores, dim=-1)
        x = torch.matmul(self.dropout(attn), v)
        x = x.transpose(1, 2).contiguous().view(frames.size(0), -1, self.h * self.d_k)
        out = frames + self.dropout(self.linear_out(x))
        return out.masked_fill(pad.unsqueeze(-1), 0.0)
