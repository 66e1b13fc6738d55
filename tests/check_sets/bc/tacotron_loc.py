"""Location-sensitive attention for the Kazakh TTS voice."""
import torch
from torch import nn
from torch.nn import functional as F


def lengths_to_padding(lengths, max_len=None):
    """True at padded positions."""
    max_len = max_len or int(lengths.max())
    return torch.arange(max_len, device=lengths.device)[None] >= lengths[:, None]


class LocationLayer(nn.Module):
    def __init__(self, n_filters, kernel, dim):
        super().__init__()
        self.conv = nn.Conv1d(2, n_filters, kernel, padding=(kernel - 1) // 2, bias=False)
        self.dense = nn.Linear(n_filters, dim, bias=False)

    def forward(self, w):
        return self.dense(self.conv(w).transpose(1, 2))


class LocationSensitiveAttention(nn.Module):
    """e_j = v^T tanh(W s + V h_j + U f_j); f from previous and cumulative weights.

    start(memory, lengths) is called once per utterance, then forward(s) per frame.
    """

    mask_value = -float("inf")

    def __init__(self, rnn_dim=20, mem_dim=12, dim=10, n_filters=4, kernel=5):
        super().__init__()
        self.query_layer = nn.Linear(rnn_dim, dim, bias=False)
        self.memory_layer = nn.Linear(mem_dim, dim, bias=False)
        self.v = nn.Linear(dim, 1, bias=False)
        self.loc = LocationLayer(n_filters, kernel, dim)
        self.reset()

    def reset(self):
        self.memory = self.processed = self.prev = self.cum = self.pad = None

    def start(self, memory, lengths=None):
        self.memory = memory
        self.processed = self.memory_layer(memory)
        self.prev = memory.new_zeros(memory.shape[:2])
        self.cum = memory.new_zeros(memory.shape[:2])
        self.pad = None if lengths is None else lengths_to_padding(lengths, memory.shape[1])

    def forward(self, s):
        loc = self.loc(torch.stack((self.prev, self.cum), dim=1))
        e = self.v(torch.tanh(self.query_layer(s)[:, None] + self.processed + loc)).squeeze(-1)
        if self.pad is not None:
            e = e.masked_fill(self.pad, self.mask_value)
        w = F.softmax(e, dim=1)
        ctx = torch.bmm(w[:, None], self.memory)[:, 0]
        self.prev = w
        self.cum = self.cum + w
        return ctx, w
