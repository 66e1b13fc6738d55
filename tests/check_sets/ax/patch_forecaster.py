"""Patched, channel independent forecaster (after PatchTST).

Attention uses the residual scheme of RealFormer: a layer adds the raw scores of
the layer below to its own before the softmax, and hands the sum on.
"""
import torch
import torch.nn as nn
import torch.nn.functional as F


class ResidualScoreAttention(nn.Module):
    def __init__(self, d_model, n_heads, attn_dropout=0.0, learn_temperature=False):
        super().__init__()
        self.n_heads = n_heads
        self.d_k = d_model // n_heads
        self.to_qkv = nn.Linear(d_model, 3 * d_model)
        self.to_out = nn.Linear(d_model, d_model)
        self.temperature = nn.Parameter(torch.tensor(self.d_k ** -0.5), requires_grad=learn_temperature)
        self.attn_dropout = nn.Dropout(attn_dropout)

    def forward(self, x, prev=None, missing=None):
        """
        x        [N, P, D]        N = batch * channels, P patches
        prev     [N, H, P, P]     raw scores of the layer below, or None
        missing  [N, P] bool      True where a patch holds no observation at all

        returns  (output [N, P, D], weights [N, H, P, P], raw scores for the layer above)
        """
        n, p, d = x.shape
        qkv = self.to_qkv(x).view(n, p, 3, self.n_heads, self.d_k)
        q, k, v = qkv.permute(2, 0, 3, 1, 4)
        scores = torch.einsum("nhqd,nhkd->nhqk", q, k) * self.temperature
        if prev is not None:
            scores = scores + prev

        visible = scores
        if missing is not None:
            visible = scores.masked_fill(missing[:, None, None, :], torch.finfo(scores.dtype).min)
        weights = F.softmax(visible, dim=-1)
        out = torch.einsum("nhqk,nhkd->nqhd", self.attn_dropout(weights), v)
        return self.to_out(out.reshape(n, p, d)), weights, scores


class PatchEncoder(nn.Module):
    def __init__(self, patch_len, n_patches, d_model=64, n_heads=4, layers=3, dropout=0.1):
        super().__init__()
        self.proj = nn.Linear(patch_len, d_model)
        self.pos = nn.Parameter(torch.randn(n_patches, d_model) * 0.02)
        self.attn = nn.ModuleList(ResidualScoreAttention(d_model, n_heads, dropout) for _ in range(layers))
        self.mlp = nn.ModuleList(
            nn.Sequential(nn.Linear(d_model, 2 * d_model), nn.GELU(), nn.Dropout(dropout), nn.Linear(2 * d_model, d_model))
            for _ in range(layers))
        self.norm1 = nn.ModuleList(nn.LayerNorm(d_model) for _ in range(layers))
        self.norm2 = nn.ModuleList(nn.LayerNorm(d_model) for _ in range(layers))

    def forward(self, patches, missing=None):
        x, scores = self.proj(patches) + self.pos, None
        for att, mlp, n1, n2 in zip(self.attn, self.mlp, self.norm1, self.norm2):
            y, _, scores = att(x, scores, missing)
            x = n1(x + y)
            x = n2(x + mlp(x))
        return x


class PatchForecaster(nn.Module):
    def __init__(self, context=96, horizon=24, patch_len=16, stride=8, **kw):
        super().__init__()
        self.patch_len, self.stride = patch_len, stride
        n = (context - patch_len) // stride + 2
        self.encoder = PatchEncoder(patch_len, n, **kw)
        self.head = nn.Linear(n * self.encoder.pos.size(1), horizon)

    def forward(self, series):
        """series [B, context, C], NaN = not observed"""
        seen = torch.isfinite(series)
        x = torch.where(seen, series, torch.zeros_like(series))
        cnt = seen.sum(1, keepdim=True).clamp(min=1)
        mu = x.sum(1, keepdim=True) / cnt
        sd = (((x - mu) * seen).pow(2).sum(1, keepdim=True) / cnt + 1e-5).sqrt()
        x = ((x - mu) / sd * seen).transpose(1, 2)
        x = F.pad(x, (0, self.stride), mode="replicate").unfold(-1, self.patch_len, self.stride)
        m = F.pad(seen.transpose(1, 2).float(), (0, self.stride), mode="replicate")
        m = m.unfold(-1, self.patch_len, self.stride).sum(-1) == 0
        z = self.encoder(x.flatten(0, 1), m.flatten(0, 1))
        y = self.head(z.flatten(1)).view(series.size(0), series.size(2), -1).transpose(1, 2)
        return y * sd + mu
