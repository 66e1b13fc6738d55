"""Radiology report generator: text tokens consult the image patches."""
from dataclasses import dataclass
import torch
from torch import nn


@dataclass
class ReportCfg:
    width: int = 48
    image_width: int = 40
    heads: int = 6
    dropout: float = 0.1


class PatchConsult(nn.Module):
    """Multi-head scaled dot-product attention from words to patches, with residual.

    words   (B, T, width)
    patches (B, P, image_width)
    """

    def __init__(self, cfg: ReportCfg = ReportCfg()):
        super().__init__()
        self.heads = cfg.heads
        self.head_dim = cfg.width // cfg.heads
        self.norm = nn.LayerNorm(cfg.width)
        self.q = nn.Linear(cfg.width, cfg.width)
        self.k = nn.Linear(cfg.image_width, cfg.width)
        self.v = nn.Linear(cfg.image_width, cfg.width)
        self.o = nn.Linear(cfg.width, cfg.width)
        self.drop = nn.Dropout(cfg.dropout)
        self.scale = cfg.width ** -0.5

    def forward(self, words, patches):
        B, T, C = words.shape
        P = patches.shape[1]
        q = self.q(self.norm(words)).view(B, T, self.heads, self.head_dim).transpose(1, 2)
        k = self.k(patches).view(B, P, self.heads, self.head_dim).transpose(1, 2)
        v = self.v(patches).view(B, P, self.heads, self.head_dim).transpose(1, 2)
        logits = torch.matmul(q, k.transpose(-2, -1)) * self.scale
        weights = self.drop(torch.softmax(logits, dim=-1))
        y = torch.matmul(weights, v).transpose(1, 2).reshape(B, T, C)
        return words + self.drop(self.o(y))
