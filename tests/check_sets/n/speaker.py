import torch
import torch.nn as nn


class UtteranceEncoder(nn.Module):
    """mel: (batch, frames, n_mels) -> embedding (batch, dim)"""

    def __init__(self, n_mels=20, dim=32, heads=4):
        super().__init__()
        self.prenet = nn.Sequential(nn.Linear(n_mels, dim), nn.ReLU())
        self.self_attn = nn.MultiheadAttention(dim, heads)
        self.norm = nn.LayerNorm(dim)

    def forward(self, mel):
        h = self.prenet(mel)
        a, _ = self.self_attn(h, h, h)
        h = self.norm(h + a)
        return h.mean(dim=1)
