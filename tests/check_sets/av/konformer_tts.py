# Text-to-speech encoder: FFT blocks of FastSpeech
import numpy as np
import torch
import torch.nn as nn
import torch.nn.functional as F


class ScaledDot(nn.Module):
    def __init__(self, temperature, dropout):
        super().__init__()
        self.temperature = temperature
        self.dropout = nn.Dropout(dropout)

    def forward(self, q, k, v, mask=None):
        attn = torch.bmm(q, k.transpose(1, 2)) / self.temperature
        if mask is not None:
            attn = attn.masked_fill(mask, -np.inf)
        attn = F.softmax(attn, dim=2)
        return torch.bmm(self.dropout(attn), v), attn


class PhonemeSelfAttention(nn.Module):
    """x: (B, L, d_model); mask: (B, L, L), True at keys that are padding of that
    utterance (each utterance has its own length)."""

    def __init__(self, n_head, d_model, d_k, d_v, dropout=0.1):
        super().__init__()
        self.n_head, self.d_k, self.d_v = n_head, d_k, d_v
        self.w_qs = nn.Linear(d_model, n_head * d_k)
        self.w_ks = nn.Linear(d_model, n_head * d_k)
        self.w_vs = nn.Linear(d_model, n_head * d_v)
        self.attention = ScaledDot(np.power(d_k, 0.5), dropout)
        self.fc = nn.Linear(n_head * d_v, d_model)
        self.layer_norm = nn.LayerNorm(d_model)
        self.dropout = nn.Dropout(dropout)

    def forward(self, x, mask=None):
        B, L, _ = x.shape
        h = self.n_head
        q = self.w_qs(x).view(B, L, h, self.d_k).transpose(1, 2).reshape(B * h, L, self.d_k)
        k = self.w_ks(x).view(B, L, h, self.d_k).transpose(1, 2).reshape(B * h, L, self.d_k)
        v = self.w_vs(x).view(B, L, h, self.d_v).transpose(1, 2).reshape(B * h, L, self.d_v)
        if mask is not None:
            mask = mask.repeat(h, 1, 1)
        out, attn = self.attention(q, k, v, mask)
        out = out.view(B, h, L, self.d_v).transpose(1, 2).reshape(B, L, -1)
        return self.layer_norm(self.dropout(self.fc(out)) + x), attn


class ConvFF(nn.Module):
    def __init__(self, d, hidden, dropout=0.1):
        super().__init__()
        self.w1 = nn.Conv1d(d, hidden, 9, padding=4)
        self.w2 = nn.Conv1d(hidden, d, 1)
        self.norm, self.drop = nn.LayerNorm(d), nn.Dropout(dropout)

    def forward(self, x):
        y = self.w2(F.relu(self.w1(x.transpose(1, 2)))).transpose(1, 2)
        return self.norm(self.drop(y) + x)


class FFTBlock(nn.Module):
    def __init__(self, d_model, d_inner, n_head):
        super().__init__()
        self.slf_attn = PhonemeSelfAttention(n_head, d_model, d_model // n_head, d_model // n_head)
        self.pos_ffn = ConvFF(d_model, d_inner)

    def forward(self, x, pad):
        """pad: (B, L) True for padding"""
        mask = pad.unsqueeze(1).expand(-1, pad.size(1), -1)
        y, attn = self.slf_attn(x, mask)
        y = y.masked_fill(pad.unsqueeze(-1), 0)
        return self.pos_ffn(y).masked_fill(pad.unsqueeze(-1), 0), attn
