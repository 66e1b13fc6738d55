"""Local additive self-attention for P/S phase picking.

Following the "seq self attention" used in earthquake transformers:

    e[t, s] = v . tanh(Wt x_t + Ws x_s + b) + c
    a[t, :] = softmax of e[t, :] over the samples s with |t - s| <= radius
    y_t     = sum_s a[t, s] x_s

The restriction to the neighbourhood is done by hand on the exponentials
(samples outside get weight exactly 0, the rest is normalised to 1).

x: (batch, samples, channels).   Returns y of the same shape and a of shape
(batch, samples, samples), rows = t.
"""
import torch
from torch import nn


class LocalSeqAttention(nn.Module):

    def __init__(self, channels, units=32, radius=3):
        super().__init__()
        self.radius = radius
        self.Wt = nn.Linear(channels, units, bias=False)
        self.Ws = nn.Linear(channels, units, bias=False)
        self.b = nn.Parameter(torch.zeros(units))
        self.v = nn.Linear(units, 1)

    def neighbourhood(self, n, device):
        i = torch.arange(n, device=device)
        return (i[:, None] - i[None, :]).abs() <= self.radius

    def forward(self, x):
        n = x.size(1)
        h = torch.tanh(self.Wt(x).unsqueeze(2) + self.Ws(x).unsqueeze(1) + self.b)
        e = self.v(h).squeeze(-1)                       # (B, t, s)
        near = self.neighbourhood(n, x.device)
        top = e.masked_fill(~near, float("-inf")).amax(dim=-1, keepdim=True)
        e = torch.exp(torch.minimum(e - top, torch.zeros_like(e)))
        e = e * near
        a = e / e.sum(dim=-1, keepdim=True)
        return torch.bmm(a, x), a


class PhasePicker(nn.Module):
    """waveform (B, 3, N) -> log-odds (B, N, 2) for P and S onsets."""

    def __init__(self, channels=24, radius=3):
        super().__init__()
        self.conv = nn.Sequential(nn.Conv1d(3, channels, 7, padding=3), nn.ReLU())
        self.rnn = nn.LSTM(channels, channels // 2, bidirectional=True, batch_first=True)
        self.att = LocalSeqAttention(channels, radius=radius)
        self.head = nn.Linear(channels, 2)

    def forward(self, wav):
        z, _ = self.rnn(self.conv(wav).transpose(1, 2))
        y, _ = self.att(z)
        return self.head(y)
