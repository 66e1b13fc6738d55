"""Time-series library: reversible norm, patching, encoder, forecasting head."""
from types import SimpleNamespace

import torch
import torch.nn as nn
import torch.nn.functional as F


class RevIN(nn.Module):
    def __init__(self, n_vars, eps=1e-5):
        super().__init__()
        self.eps = eps
        self.gamma = nn.Parameter(torch.ones(n_vars))
        self.beta = nn.Parameter(torch.zeros(n_vars))

    def norm(self, x):
        self.mu = x.mean(1, keepdim=True).detach()
        self.sd = (x.var(1, keepdim=True, unbiased=False) + self.eps).sqrt().detach()
        return (x - self.mu) / self.sd * self.gamma + self.beta

    def denorm(self, y):
        return (y - self.beta) / (self.gamma + self.eps ** 2) * self.sd + self.mu


class FullAttention(nn.Module):
    def __init__(self, scale=None, attention_dropout=0.1, output_attention=False):
        super().__init__()
        self.scale = scale
        self.output_attention = output_attention
        self.dropout = nn.Dropout(attention_dropout)

    def forward(self, queries, keys, values):
        """3-D: [rows, L, E]"""
        scale = self.scale or 1.0 / queries.shape[-1] ** 0.5
        scores = torch.bmm(queries, keys.transpose(1, 2))
        A = torch.softmax(scale * scores, dim=-1)
        V = torch.bmm(self.dropout(A), values)
        return V, (A if self.output_attention else None)


class AttentionLayer(nn.Module):
    """Projects, cuts into heads, runs `attention` on every head and puts the heads together.

    queries [B, L, d_model], keys and values [B, S, d_model] -> [B, L, d_model]
    """

    def __init__(self, attention, d_model, n_heads, d_keys=None):
        super().__init__()
        d_keys = d_keys or d_model // n_heads
        self.inner = attention
        self.n_heads = n_heads
        self.query_projection = nn.Linear(d_model, d_keys * n_heads)
        self.key_projection = nn.Linear(d_model, d_keys * n_heads)
        self.value_projection = nn.Linear(d_model, d_keys * n_heads)
        self.out_projection = nn.Linear(d_keys * n_heads, d_model)

    def _fold(self, x):
        B, L, _ = x.shape
        x = x.view(B, L, self.n_heads, -1).permute(0, 2, 1, 3)
        return x.reshape(B * self.n_heads, L, -1)

    def _unfold(self, x, B):
        _, L, E = x.shape
        x = x.view(self.n_heads, B, L, E).permute(1, 2, 0, 3)
        return x.reshape(B, L, self.n_heads * E)

    def forward(self, queries, keys, values):
        q = self._fold(self.query_projection(queries))
        k = self._fold(self.key_projection(keys))
        v = self._fold(self.value_projection(values))
        out, attn = self.inner(q, k, v)
        return self.out_projection(self._unfold(out, queries.shape[0])), attn


class EncoderLayer(nn.Module):
    def __init__(self, attention, d_model, d_ff=None, dropout=0.1):
        super().__init__()
        d_ff = d_ff or 4 * d_model
        self.attention = attention
        self.conv1 = nn.Conv1d(d_model, d_ff, kernel_size=1)
        self.conv2 = nn.Conv1d(d_ff, d_model, kernel_size=1)
        self.norm1, self.norm2 = nn.LayerNorm(d_model), nn.LayerNorm(d_model)
        self.dropout = nn.Dropout(dropout)

    def forward(self, x):
        new_x, attn = self.attention(x, x, x)
        x = self.norm1(x + self.dropout(new_x))
        y = F.gelu(self.conv1(x.transpose(-1, 1)))
        y = self.conv2(self.dropout(y)).transpose(-1, 1)
        return self.norm2(x + self.dropout(y)), attn


class Model(nn.Module):
    """configs: seq_len, pred_len, enc_in, patch_len, stride, d_model, n_heads, e_layers, dropout"""

    def __init__(self, configs):
        super().__init__()
        c = configs
        self.patch_len, self.stride = c.patch_len, c.stride
        n_patches = (c.seq_len - c.patch_len) // c.stride + 1
        self.revin = RevIN(c.enc_in)
        self.embed = nn.Linear(c.patch_len, c.d_model)
        self.pos = nn.Parameter(torch.randn(n_patches, c.d_model) * 0.02)
        self.encoder = nn.ModuleList(
            EncoderLayer(AttentionLayer(FullAttention(attention_dropout=c.dropout), c.d_model, c.n_heads),
                         c.d_model, dropout=c.dropout)
            for _ in range(c.e_layers))
        self.head = nn.Linear(n_patches * c.d_model, c.pred_len)

    def forward(self, x_enc):
        B, _, N = x_enc.shape
        x = self.revin.norm(x_enc).permute(0, 2, 1)
        x = x.unfold(-1, self.patch_len, self.stride).flatten(0, 1)      # [B*N, patches, patch_len]
        x = self.embed(x) + self.pos
        for layer in self.encoder:
            x, _ = layer(x)
        y = self.head(x.flatten(1)).view(B, N, -1).permute(0, 2, 1)
        return self.revin.denorm(y)


DEFAULTS = SimpleNamespace(seq_len=96, pred_len=24, enc_in=7, patch_len=16, stride=8, d_model=32,
                           n_heads=4, e_layers=2, dropout=0.1)
