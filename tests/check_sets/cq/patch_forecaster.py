"""PatchTST-like forecaster: channel independent, patches as tokens (Nie et al., ICLR 2023)."""
import torch
import torch.nn as nn
import torch.nn.functional as F


class PatchAttention(nn.Module):
    """Bidirectional self-attention over the patches of one channel. (B, P, d_model)"""

    def __init__(self, d_model=32, n_heads=4, attn_dropout=0.2):
        super().__init__()
        self.n_heads = n_heads
        self.attn_dropout = attn_dropout
        self.W_qkv = nn.Linear(d_model, 3 * d_model)
        self.W_o = nn.Linear(d_model, d_model)

    def forward(self, x):
        B, P, D = x.shape
        qkv = self.W_qkv(x).view(B, P, 3, self.n_heads, D // self.n_heads)
        q, k, v = qkv.permute(2, 0, 3, 1, 4)
        y = F.scaled_dot_product_attention(q, k, v, dropout_p=self.attn_dropout)
        return self.W_o(y.transpose(1, 2).reshape(B, P, D))


class EncoderLayer(nn.Module):
    def __init__(self, d_model=32, n_heads=4, dropout=0.2):
        super().__init__()
        self.attn = PatchAttention(d_model, n_heads, dropout)
        self.norm1 = nn.BatchNorm1d(d_model)
        self.norm2 = nn.BatchNorm1d(d_model)
        self.ff = nn.Sequential(nn.Linear(d_model, 2 * d_model), nn.GELU(), nn.Dropout(dropout),
                                nn.Linear(2 * d_model, d_model))
        self.drop = nn.Dropout(dropout)

    def forward(self, x):
        x = x + self.drop(self.attn(x))
        x = self.norm1(x.transpose(1, 2)).transpose(1, 2)
        x = x + self.drop(self.ff(x))
        return self.norm2(x.transpose(1, 2)).transpose(1, 2)


class PatchForecaster(nn.Module):
    """series: (B, seq_len, channels) -> forecast (B, horizon, channels)"""

    def __init__(self, seq_len=64, horizon=12, patch=8, stride=4, d_model=32, n_heads=4, layers=2):
        super().__init__()
        self.patch, self.stride = patch, stride
        n_patches = (seq_len - patch) // stride + 1
        self.embed = nn.Linear(patch, d_model)
        self.pos = nn.Parameter(torch.randn(n_patches, d_model) * 0.02)
        self.layers = nn.ModuleList(EncoderLayer(d_model, n_heads) for _ in range(layers))
        self.head = nn.Linear(n_patches * d_model, horizon)

    def forward(self, series):
        mean = series.mean(1, keepdim=True)
        std = series.std(1, keepdim=True) + 1e-5
        x = ((series - mean) / std).transpose(1, 2)          # (B, C, T)
        B, C, _ = x.shape
        x = x.unfold(-1, self.patch, self.stride).flatten(0, 1)
        x = self.embed(x) + self.pos
        for layer in self.layers:
            x = layer(x)
        y = self.head(x.flatten(1)).view(B, C, -1).transpose(1, 2)
        return y * std + mean
