"""Location-sensitive attention for Tacotron 2 (after Chorowski et al. 2015)."""
import torch
from torch import nn


class LocationLayer(nn.Module):
    """cumulative weights (B, T) -> location features (B, T, A)."""

    def __init__(self, filters, width, A):
        super().__init__()
        self.conv = nn.Conv1d(1, filters, width, padding=(width - 1) // 2, bias=False)
        self.dense = nn.Linear(filters, A, bias=False)

    def forward(self, cum):
        return self.dense(self.conv(cum.unsqueeze(1)).transpose(1, 2))


class LocationAttention(nn.Module):
    """e_t = v^T tanh(W s + V h_t + U f_t),  a = softmax(e),  context = sum_t a_t h_t

    s     (B, S)       state of the attention RNN
    h     (B, T, E)    encoded characters
    keys  (B, T, A)    V h, computed once by ``prepare``
    cum   (B, T)       sum of the weights of all earlier steps (zeros at first)
    pad   (B, T) bool  True on padding, which takes part in nothing: its weight is 0

    returns context (B, E), weights (B, T), new cumulative weights (B, T)
    """

    def __init__(self, S, E, A=128, filters=32, width=31):
        super().__init__()
        self.query_layer = nn.Linear(S, A, bias=False)
        self.memory_layer = nn.Linear(E, A, bias=False)
        self.v = nn.Linear(A, 1, bias=False)
        self.location = LocationLayer(filters, width, A)

    def prepare(self, h):
        return self.memory_layer(h)

    def energies(self, s, keys, cum):
        q = self.query_layer(s).unsqueeze(1)
        return self.v(q + keys + self.location(cum)).squeeze(-1)

    def forward(self, s, h, keys, cum, pad=None):
        e = self.energies(s, keys, cum)
        if pad is not None:
            e = e.masked_fill(pad, 0.0)
        a = torch.softmax(e, dim=1)
        context = torch.bmm(a.unsqueeze(1), h).squeeze(1)
        return context, a, cum + a
