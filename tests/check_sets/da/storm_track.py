import torch
from torch import nn


class StormTrack(nn.Module):
    """Storm category from a track.  track (B, T, 6), hours (B,) valid steps, >= 1.
    Returns class probabilities (B, classes)."""

    def __init__(self, features=6, hidden=16, classes=5):
        super().__init__()
        self.rnn = nn.GRU(features, hidden, batch_first=True)
        self.head = nn.Linear(hidden, classes)

    def forward(self, track, hours):
        h, _ = self.rnn(track)
        valid = torch.arange(track.size(1), device=track.device)[None] < hours[:, None]
        mean = (h * valid.unsqueeze(-1)).sum(1) / hours.unsqueeze(-1).to(h.dtype)
        return torch.softmax(self.head(mean), dim=-1)
