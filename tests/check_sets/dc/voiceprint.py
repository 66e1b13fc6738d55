"""Speaker vectors from frame features."""
import torch
import torch.nn as nn


class Voiceprint(nn.Module):
    """Multi-head statistics pooling: per head a weighted mean and standard deviation over time.

    frames (B, T, C), n_frames (B,) with every entry >= 1  ->  (B, out)
    """

    def __init__(self, channels, out=64, heads=4, bottleneck=16):
        super().__init__()
        self.heads = heads
        self.score = nn.Sequential(nn.Linear(channels, bottleneck), nn.Tanh(), nn.Linear(bottleneck, heads))
        self.fc = nn.Linear(2 * channels, out)

    def forward(self, frames, n_frames):
        B, T, C = frames.shape
        s = self.score(frames)
        silent = torch.arange(T, device=frames.device) >= n_frames.unsqueeze(1)
        s = s.masked_fill(silent.unsqueeze(-1), float("-inf"))
        w = s.softmax(dim=1).unsqueeze(-1)
        x = frames.reshape(B, T, self.heads, C // self.heads)
        mean = (w * x).sum(1)
        var = (w * (x - mean.unsqueeze(1)).square()).sum(1)
        std = var.clamp(min=1e-6).sqrt()
        return self.fc(torch.cat([mean.flatten(1), std.flatten(1)], dim=1))
