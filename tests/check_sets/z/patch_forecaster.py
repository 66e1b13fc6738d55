"""PatchTST-like forecaster, channel independent."""
import torch
import torch.nn as nn
import torch.nn.functional as F


class RevIN(nn.Module):
    def __init__(self, eps=1e-5):
        super().__init__()
        self.eps = eps

    def forward(self, x):
        self_mean = x.mean(1, keepdim=True)
        self_std = (x.var(1, keepdim=True, unbiased=False) + self.eps).sqrt()
        return (x - self_mean) / self_std, (self_mean, self_std)

    @staticmethod
    def inverse(y, stats):
        return y * stats[1] + stats[0]


class PatchAttention(nn.Module):
    """Self-attention over the patches of one channel, (N, P, d_model) -> (N, P, d_model)."""

    def __init__(self, d_model, n_heads, dropout=0.1):
        super().__init__()
        self.n_heads, self.d_k = n_heads, d_model // n_heads
        self.dropout = dropout
        self.W_Q = nn.Linear(d_model, d_model)
        self.W_K = nn.Linear(d_model, d_model)
        self.W_V = nn.Linear(d_model, d_model)
        self.to_out = nn.Linear(d_model, d_model)

    def forward(self, z):
        N, P, _ = z.shape
        q_s = self.W_Q(z).view(N, P, self.n_heads, self.d_k).transpose(1, 2)
        k_s = self.W_K(z).view(N, P, self.n_heads, self.d_k).permute(0, 2, 3, 1)
        v_s = self.W_V(z).view(N, P, self.n_heads, self.d_k).transpose(1, 2)
        attn = F.softmax(torch.matmul(q_s, k_s) * self.d_k ** -0.5, dim=-1)
        attn = F.dropout(attn, self.dropout)
        output = torch.matmul(attn, v_s)
        output = output.contiguous().view(N, P, self.n_heads * self.d_k)
        return self.to_out(output)


class EncoderLayer(nn.Module):
    def __init__(self, d_model, n_heads, d_ff, dropout):
        super().__init__()
        self.self_attn = PatchAttention(d_model, n_heads, dropout)
        self.norm_attn = nn.LayerNorm(d_model)
        self.ff = nn.Sequential(nn.Linear(d_model, d_ff), nn.GELU(), nn.Dropout(dropout), nn.Linear(d_ff, d_model))
        self.norm_ffn = nn.LayerNorm(d_model)
        self.drop = nn.Dropout(dropout)

    def forward(self, src):
        src = self.norm_attn(src + self.drop(self.self_attn(src)))
        return self.norm_ffn(src + self.drop(self.ff(src)))


class PatchForecaster(nn.Module):
    """x (B, L, C) past values -> (B, horizon, C)"""

    def __init__(self, seq_len=48, horizon=12, patch=8, stride=4, d_model=32, n_heads=4, layers=2, dropout=0.1):
        super().__init__()
        self.patch, self.stride, self.horizon = patch, stride, horizon
        self.revin = RevIN()
        self.pad = nn.ReplicationPad1d((0, stride))
        P = (seq_len + stride - patch) // stride + 1
        self.W_P = nn.Linear(patch, d_model)
        self.W_pos = nn.Parameter(torch.empty(P, d_model).uniform_(-0.02, 0.02))
        self.layers = nn.ModuleList(EncoderLayer(d_model, n_heads, 2 * d_model, dropout) for _ in range(layers))
        self.head = nn.Linear(P * d_model, horizon)

    def forward(self, x):
        B, L, C = x.shape
        x, stats = self.revin(x)
        p = self.pad(x.permute(0, 2, 1)).unfold(-1, self.patch, self.stride)
        z = self.W_P(p.reshape(B * C, -1, self.patch)) + self.W_pos
        for layer in self.layers:
            z = layer(z)
        y = self.head(z.flatten(1)).view(B, C, self.horizon).permute(0, 2, 1)
        return self.revin.inverse(y, stats)
