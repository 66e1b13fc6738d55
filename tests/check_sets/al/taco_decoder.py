"""Tacotron 2 attention decoder for the Icelandic voice (location-sensitive attention)."""
import torch
import torch.nn as nn
import torch.nn.functional as F


class Prenet(nn.Module):
    """Dropout stays on at synthesis; this is the habit of Tacotron 2."""

    def __init__(self, n_in, sizes=(256, 256)):
        super().__init__()
        dims = [n_in, *sizes]
        self.layers = nn.ModuleList(nn.Linear(a, b, bias=False) for a, b in zip(dims, dims[1:]))

    def forward(self, x):
        for l in self.layers:
            x = F.dropout(F.relu(l(x)), 0.5, training=True)
        return x


class LocationSensitiveAttention(nn.Module):
    """e_i = w . tanh(W s + V h_i + U f_i + b),  f = conv([previous weights, cumulative weights])

    Call `begin` once for an utterance, then the module once per decoder step.
    """

    def __init__(self, query_dim, memory_dim, att_dim=128, filters=32, kernel=31):
        super().__init__()
        self.W = nn.Linear(query_dim, att_dim, bias=False)
        self.V = nn.Linear(memory_dim, att_dim, bias=False)
        self.U = nn.Linear(filters, att_dim, bias=True)
        self.w = nn.Linear(att_dim, 1, bias=False)
        self.conv = nn.Conv1d(2, filters, kernel, padding=kernel // 2, bias=False)

    def begin(self, memory, text_len):
        B, T, _ = memory.shape
        self.memory = memory
        self.keys = self.V(memory)
        self.beyond = torch.arange(T, device=memory.device)[None] >= text_len[:, None]
        self.prev = memory.new_zeros(B, T)
        self.total = memory.new_zeros(B, T)

    def forward(self, query):
        loc = self.conv(torch.stack([self.prev, self.total], 1)).transpose(1, 2)
        e = self.w(torch.tanh(self.W(query)[:, None] + self.keys + self.U(loc))).squeeze(-1)
        e = e.masked_fill(self.beyond, float("-inf"))
        weights = F.softmax(e, dim=-1)
        self.prev = weights
        self.total = self.total + weights
        return torch.bmm(weights[:, None], self.memory)[:, 0], weights


class TacoDecoder(nn.Module):
    def __init__(self, n_mels=80, memory_dim=512, rnn=1024):
        super().__init__()
        self.n_mels = n_mels
        self.prenet = Prenet(n_mels)
        self.att_rnn = nn.LSTMCell(256 + memory_dim, rnn)
        self.attention = LocationSensitiveAttention(rnn, memory_dim)
        self.dec_rnn = nn.LSTMCell(rnn + memory_dim, rnn)
        self.mel = nn.Linear(rnn + memory_dim, n_mels)
        self.stop = nn.Linear(rnn + memory_dim, 1)

    def forward(self, memory, text_len, mels):
        B = memory.shape[0]
        self.attention.begin(memory, text_len)
        go = memory.new_zeros(B, 1, self.n_mels)
        x = self.prenet(torch.cat([go, mels[:, :-1]], 1))
        a = d = None
        ctx = memory.new_zeros(B, memory.shape[2])
        frames, stops, aligns = [], [], []
        for t in range(x.shape[1]):
            a = self.att_rnn(torch.cat([x[:, t], ctx], -1), a)
            ctx, w = self.attention(a[0])
            d = self.dec_rnn(torch.cat([a[0], ctx], -1), d)
            y = torch.cat([d[0], ctx], -1)
            frames.append(self.mel(y))
            stops.append(self.stop(y))
            aligns.append(w)
        return torch.stack(frames, 1), torch.cat(stops, 1), torch.stack(aligns, 1)
