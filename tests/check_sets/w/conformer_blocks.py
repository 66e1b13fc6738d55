# 한국어 음성 인식 인코더 블록 (KsponSpeech)
import math

import torch
import torch.nn as nn
import torch.nn.functional as F


class Swish(nn.Module):
    def forward(self, x):
        return x * x.sigmoid()


class FeedForwardModule(nn.Module):
    def __init__(self, dim, expansion=4, dropout_p=0.1):
        super().__init__()
        self.sequential = nn.Sequential(
            nn.LayerNorm(dim), nn.Linear(dim, dim * expansion), Swish(), nn.Dropout(dropout_p),
            nn.Linear(dim * expansion, dim), nn.Dropout(dropout_p),
        )

    def forward(self, x):
        return self.sequential(x)


class ConvModule(nn.Module):
    def __init__(self, dim, kernel_size=7, dropout_p=0.1):
        super().__init__()
        self.norm = nn.LayerNorm(dim)
        self.pw1 = nn.Conv1d(dim, dim * 2, 1)
        self.dw = nn.Conv1d(dim, dim, kernel_size, padding=(kernel_size - 1) // 2, groups=dim)
        self.ln = nn.LayerNorm(dim)
        self.pw2 = nn.Conv1d(dim, dim, 1)
        self.dropout = nn.Dropout(dropout_p)

    def forward(self, x):
        y = F.glu(self.pw1(self.norm(x).transpose(1, 2)), dim=1)
        y = self.ln(self.dw(y).transpose(1, 2))
        y = self.pw2((y * y.sigmoid()).transpose(1, 2)).transpose(1, 2)
        return self.dropout(y)


class SelfAttentionModule(nn.Module):
    def __init__(self, d_model: int, num_heads: int, dropout_p: float = 0.1):
        super().__init__()
        assert d_model % num_heads == 0, "d_model % num_heads should be zero."
        self.num_heads = num_heads
        self.d_head = d_model // num_heads
        self.dropout_p = dropout_p
        self.layer_norm = nn.LayerNorm(d_model)
        self.qkv = nn.Linear(d_model, 3 * d_model)
        self.out_proj = nn.Linear(d_model, d_model)

    def forward(self, inputs, pad_mask=None):
        # inputs: (batch, time, dim)   pad_mask: (batch, time) True where the frame is padding
        B, T, C = inputs.shape
        x = self.layer_norm(inputs)
        q, k, v = self.qkv(x).chunk(3, dim=-1)
        q = q.view(B, T, self.num_heads, self.d_head).transpose(1, 2)
        k = k.view(B, T, self.num_heads, self.d_head).transpose(1, 2)
        v = v.view(B, T, self.num_heads, self.d_head).transpose(1, 2)

        score = q @ k.transpose(-2, -1) / math.sqrt(self.d_head)
        if pad_mask is not None:
            score = score.masked_fill(pad_mask[:, None, None, :], -1e9)
        attn = F.softmax(score, -1)
        attn = F.dropout(attn, p=self.dropout_p)
        ctx = (attn @ v).transpose(1, 2).reshape(B, T, C)
        return self.out_proj(ctx)


class ConformerBlock(nn.Module):
    def __init__(self, encoder_dim=64, num_attention_heads=4, dropout_p=0.1):
        super().__init__()
        self.ff1 = FeedForwardModule(encoder_dim, dropout_p=dropout_p)
        self.attn = SelfAttentionModule(encoder_dim, num_attention_heads, dropout_p)
        self.conv = ConvModule(encoder_dim, dropout_p=dropout_p)
        self.ff2 = FeedForwardModule(encoder_dim, dropout_p=dropout_p)
        self.norm = nn.LayerNorm(encoder_dim)

    def forward(self, x, pad_mask=None):
        x = x + 0.5 * self.ff1(x)
        x = x + self.attn(x, pad_mask)
        x = x + self.conv(x)
        x = x + 0.5 * self.ff2(x)
        return self.norm(x)
