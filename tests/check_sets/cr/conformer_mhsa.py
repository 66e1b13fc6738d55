from dataclasses import dataclass

import torch
import torch.nn as nn


@dataclass
class ASRConfig:
    d_model: int = 32
    n_heads: int = 4
    dropout: float = 0.1


class ConformerSelfAttention(nn.Module):
    """Multi-head self-attention module of an ASR encoder, on log-mel frames.

    frames:  (B, T, d_model)
    lengths: (B,) number of real frames of each utterance, >= 1; later frames are padding and
             are not attended to.
    """

    def __init__(self, cfg: ASRConfig):
        super().__init__()
        self.h = cfg.n_heads
        self.dk = cfg.d_model // cfg.n_heads
        self.norm = nn.LayerNorm(cfg.d_model)
        self.linear_q = nn.Linear(cfg.d_model, cfg.d_model)
        self.linear_k = nn.Linear(cfg.d_model, cfg.d_model)
        self.linear_v = nn.Linear(cfg.d_model, cfg.d_model)
        self.linear_out = nn.Linear(cfg.d_model, cfg.d_model)
        self.dropout = nn.Dropout(cfg.dropout)

    def forward(self, frames, lengths):
        B, T, D = frames.shape
        x = self.norm(frames)
        q = self.linear_q(x).view(B, T, self.h, self.dk).transpose(1, 2)
        k = self.linear_k(x).view(B, T, self.h, self.dk).transpose(1, 2)
        v = self.linear_v(x).view(B, T, self.h, self.dk).transpose(1, 2)
        scores = q @ k.transpose(-2, -1) * self.dk ** -0.5
        pad = torch.arange(T, device=x.device)[None, :] >= lengths[:, None]
        scores = scores.masked_fill(pad[:, None, None, :], float("-inf"))
        p = self.dropout(torch.softmax(scores, dim=-1))
        ctx = torch.matmul(p, v).reshape(B, T, D)
        return frames + self.dropout(self.linear_out(ctx))
