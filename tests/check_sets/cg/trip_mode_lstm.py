"""Travel-mode recognition (walk, bike, bus, car, train) from GPS trips.

A packed bidirectional LSTM runs over the points; the hidden states are max-pooled over
the real points of the trip and classified.  Trips in a batch may have any length >= 1.
"""
import torch
from torch import nn
from torch.nn.utils.rnn import pack_padded_sequence, pad_packed_sequence

MODES = ["walk", "bike", "bus", "car", "train"]


def motion_features(points):
    """points [B, T, 3] (x metres, y metres, seconds) -> speed, acceleration, turn [B, T, 3]"""
    d = torch.diff(points, dim=1, prepend=points[:, :1])
    dt = d[..., 2].clamp(min=1.0)
    speed = d[..., :2].norm(dim=-1) / dt
    acc = torch.diff(speed, dim=1, prepend=speed[:, :1]) / dt
    heading = torch.atan2(d[..., 1], d[..., 0])
    turn = torch.diff(heading, dim=1, prepend=heading[:, :1])
    turn = torch.atan2(turn.sin(), turn.cos())
    return torch.stack([speed, acc, turn], dim=-1)


class TripClassifier(nn.Module):
    def __init__(self, hidden=24, layers=1, dropout=0.0):
        super().__init__()
        self.norm = nn.LayerNorm(3)
        self.rnn = nn.LSTM(3, hidden, layers, batch_first=True, bidirectional=True,
                           dropout=dropout)
        self.out = nn.Linear(2 * hidden, len(MODES))

    def forward(self, points, lengths):
        x = self.norm(motion_features(points))
        packed = pack_padded_sequence(x, lengths.cpu(), batch_first=True, enforce_sorted=False)
        y, _ = pad_packed_sequence(self.rnn(packed)[0], batch_first=True,
                                   total_length=points.size(1))
        inside = torch.arange(y.size(1), device=y.device) < lengths[:, None]
        y = y.masked_fill(~inside.unsqueeze(-1), float("-inf")).amax(dim=1)
        return self.out(y)

    @torch.no_grad()
    def label(self, points, lengths):
        return [MODES[i] for i in self(points, lengths).argmax(-1).tolist()]
