# Conformer encoder for our streaming-free ASR recipe.
# Feature batches are zero padded, `lengths` holds the true number of frames.
from dataclasses import dataclass
import math

import torch
from torch import nn, Tensor
import torch.nn.functional as F


@dataclass
class ConformerConfig:
    d_model: int = 144
    n_heads: int = 4
    conv_kernel: int = 15
    ff_mult: int = 4
    n_layers: int = 2
    dropout: float = 0.1


class FeedForward(nn.Module):
    def __init__(self, cfg: ConformerConfig):
        super().__init__()
        self.net = nn.Sequential(
            nn.LayerNorm(cfg.d_model),
            nn.Linear(cfg.d_model, cfg.ff_mult * cfg.d_model),
            nn.SiLU(),
            nn.Dropout(cfg.dropout),
            nn.Linear(cfg.ff_mult * cfg.d_model, cfg.d_model),
            nn.Dropout(cfg.dropout),
        )

    def forward(self, x: Tensor) -> Tensor:
        return self.net(x)


class SelfAttention(nn.Module):
    def __init__(self, cfg: ConformerConfig):
        super().__init__()
        self.h = cfg.n_heads
        self.d_k = cfg.d_model // cfg.n_heads
        self.norm = nn.LayerNorm(cfg.d_model)
        self.wq = nn.Linear(cfg.d_model, cfg.d_model)
        self.wk = nn.Linear(cfg.d_model, cfg.d_model)
        self.wv = nn.Linear(cfg.d_model, cfg.d_model)
        self.wo = nn.Linear(cfg.d_model, cfg.d_model)
        self.drop = nn.Dropout(cfg.dropout)

    def forward(self, x: Tensor, valid: Tensor) -> Tensor:
        """x (B, T, D), valid (B, T) with True at real frames."""
        B, T, D = x.shape
        x = self.norm(x)
        q = self.wq(x).view(B, T, self.h, self.d_k).transpose(1, 2)
        k = self.wk(x).view(B, T, self.h, self.d_k).transpose(1, 2)
        v = self.wv(x).view(B, T, self.h, self.d_k).transpose(1, 2)
        logits = torch.matmul(q, k.transpose(-1, -2)) / math.sqrt(self.d_k)
        # padded frames must not contribute to anybody's context
        pad = ~valid[:, None, :, None]
        logits = logits.masked_fill(pad, torch.finfo(logits.dtype).min)
        attn = self.drop(F.softmax(logits, dim=-1))
        ctx = torch.matmul(attn, v).transpose(1, 2).contiguous().view(B, T, D)
        return self.wo(ctx)


class ConvModule(nn.Module):
    def __init__(self, cfg: ConformerConfig):
        super().__init__()
        d = cfg.d_model
        self.norm = nn.LayerNorm(d)
        self.pw1 = nn.Linear(d, 2 * d)
        self.dw = nn.Conv1d(d, d, cfg.conv_kernel, padding=cfg.conv_kernel // 2, groups=d)
        self.ln = nn.LayerNorm(d)
        self.pw2 = nn.Linear(d, d)

    def forward(self, x: Tensor, valid: Tensor) -> Tensor:
        y = F.glu(self.pw1(self.norm(x)), dim=-1)
        y = y * valid.unsqueeze(-1)
        y = self.dw(y.transpose(1, 2)).transpose(1, 2)
        return self.pw2(F.silu(self.ln(y)))


class ConformerBlock(nn.Module):
    def __init__(self, cfg: ConformerConfig):
        super().__init__()
        self.ff1, self.ff2 = FeedForward(cfg), FeedForward(cfg)
        self.mha = SelfAttention(cfg)
        self.conv = ConvModule(cfg)
        self.out_norm = nn.LayerNorm(cfg.d_model)

    def forward(self, x: Tensor, valid: Tensor) -> Tensor:
        x = x + 0.5 * self.ff1(x)
        x = x + self.mha(x, valid)
        x = x + self.conv(x, valid)
        x = x + 0.5 * self.ff2(x)
        return self.out_norm(x)


class ConformerEncoder(nn.Module):
    def __init__(self, cfg: ConformerConfig):
        super().__init__()
        self.blocks = nn.ModuleList(ConformerBlock(cfg) for _ in range(cfg.n_layers))

    def forward(self, feats: Tensor, lengths: Tensor) -> Tensor:
        valid = torch.arange(feats.size(1), device=feats.device)[None, :] < lengths[:, None]
        for blk in self.blocks:
            feats = blk(feats, valid)
        return feats
