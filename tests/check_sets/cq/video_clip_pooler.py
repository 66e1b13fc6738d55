"""Pool a variable number of frame features to one clip vector with a learned query."""
import torch
import torch.nn as nn


class ClipPooler(nn.Module):
    """Attentive pooling ("class token as query") over frames.

    frames: (batch, time, dim)
    n_frames: (batch,) int, the number of real frames of each clip, >= 1; the rest is padding
    Returns (batch, dim) and the weights of the frames (batch, time), averaged over the heads.
    """

    def __init__(self, dim=24, heads=3):
        super().__init__()
        self.query = nn.Parameter(torch.randn(1, 1, dim) * dim ** -0.5)
        self.norm = nn.LayerNorm(dim)
        self.mha = nn.MultiheadAttention(dim, heads)
        self.ffn = nn.Sequential(
            nn.LayerNorm(dim), nn.Linear(dim, 2 * dim), nn.GELU(), nn.Linear(2 * dim, dim)
        )

    def forward(self, frames, n_frames):
        batch, time, _ = frames.shape
        positions = torch.arange(time, device=frames.device)
        is_pad = positions[None, :] >= n_frames[:, None]

        mem = self.norm(frames).transpose(0, 1)      # (time, batch, dim)
        query = self.query.expand(1, batch, -1)      # (1, batch, dim)
        pooled, weights = self.mha(query, mem, mem, key_padding_mask=is_pad)
        pooled = pooled.squeeze(0)
        pooled = pooled + self.ffn(pooled)
        return pooled, weights.squeeze(1)


class ClipClassifier(nn.Module):
    def __init__(self, dim=24, heads=3, n_classes=5):
        super().__init__()
        self.temporal = nn.Conv1d(dim, dim, kernel_size=3, padding=1, groups=dim)
        self.pool = ClipPooler(dim, heads)
        self.head = nn.Linear(dim, n_classes)

    def forward(self, frames, n_frames):
        frames = frames + self.temporal(frames.transpose(1, 2)).transpose(1, 2)
        clip, _ = self.pool(frames, n_frames)
        return self.head(clip)
