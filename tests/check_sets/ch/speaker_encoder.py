"""Speaker embedding network: conv front end, self-attention, attentive pooling."""
import torch
import torch.nn as nn
import torch.nn.functional as F


class FrameAttention(nn.Module):
    """Self-attention between the frames of an utterance, x: (batch, frames, dim)."""

    def __init__(self, dim, heads=4, dropout=0.1):
        super().__init__()
        self.mha = nn.MultiheadAttention(dim, heads, dropout=dropout)
        self.norm = nn.LayerNorm(dim)

    def forward(self, x):
        y, _ = self.mha(x, x, x, need_weights=False)
        return self.norm(x + y)


class SpeakerEncoder(nn.Module):
    """
    mel: (batch, n_mels, frames) log mel spectrograms
    returns L2-normalised embeddings (batch, emb_dim)
    """

    def __init__(self, n_mels=40, dim=64, emb_dim=32, layers=2):
        super().__init__()
        self.conv = nn.Sequential(
            nn.Conv1d(n_mels, dim, 5, padding=2),
            nn.ReLU(),
            nn.Conv1d(dim, dim, 3, padding=1),
            nn.ReLU(),
        )
        self.blocks = nn.ModuleList([FrameAttention(dim) for _ in range(layers)])
        self.pool_w = nn.Linear(dim, 1)
        self.fc = nn.Linear(2 * dim, emb_dim)

    def forward(self, mel):
        x = self.conv(mel).transpose(1, 2)           # batch, frames, dim
        for blk in self.blocks:
            x = blk(x)
        w = torch.softmax(self.pool_w(x), dim=1)     # over frames
        mu = (w * x).sum(1)
        var = (w * (x - mu.unsqueeze(1)) ** 2).sum(1)
        stats = torch.cat([mu, torch.sqrt(var + 1e-6)], dim=-1)
        return F.normalize(self.fc(stats), dim=-1)
