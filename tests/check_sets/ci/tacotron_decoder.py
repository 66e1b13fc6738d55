"""Location-sensitive attention (Tacotron 2) with an LSTM mel decoder."""
import torch
import torch.nn as nn


class LocationSensitiveAttention(nn.Module):
    def __init__(self, query_dim, memory_dim, dim=16, filters=4, kernel=5):
        super().__init__()
        self.query = nn.Linear(query_dim, dim, bias=False)
        self.memory = nn.Linear(memory_dim, dim, bias=False)
        self.conv = nn.Conv1d(2, filters, kernel, padding=kernel // 2, bias=False)
        self.location = nn.Linear(filters, dim, bias=False)
        self.v = nn.Linear(dim, 1)

    def forward(self, query, memory, keys, prev, cumulative, pad):
        loc = self.conv(torch.stack([prev, cumulative], dim=1)).transpose(1, 2)
        e = self.v(torch.tanh(self.query(query)[:, None] + keys + self.location(loc))).squeeze(-1)
        e = e.masked_fill(pad, torch.finfo(e.dtype).min)
        w = torch.softmax(e, dim=1)
        return torch.einsum("bt,btd->bd", w, memory), w


class MelDecoder(nn.Module):
    """memory (B, T, D) encoder output, lengths (B,) >= 1, mels (B, F, n_mels) targets.

    Teacher forced. Returns mel frames (B, F, n_mels) and alignments (B, F, T).
    """

    def __init__(self, memory_dim=20, n_mels=8, hidden=24, prenet=12):
        super().__init__()
        self.hidden = hidden
        self.prenet = nn.Sequential(nn.Linear(n_mels, prenet), nn.ReLU(), nn.Linear(prenet, prenet), nn.ReLU())
        self.att_rnn = nn.LSTMCell(prenet + memory_dim, hidden)
        self.attention = LocationSensitiveAttention(hidden, memory_dim)
        self.dec_rnn = nn.LSTMCell(hidden + memory_dim, hidden)
        self.frame = nn.Linear(hidden + memory_dim, n_mels)

    def forward(self, memory, lengths, mels):
        B, T, D = memory.shape
        pad = torch.arange(T, device=memory.device)[None] >= lengths[:, None]
        keys = self.attention.memory(memory)
        zeros = memory.new_zeros
        h1, c1, h2, c2 = (zeros(B, self.hidden) for _ in range(4))
        context, w, total = zeros(B, D), zeros(B, T), zeros(B, T)
        go = zeros(B, 1, mels.shape[-1])
        inputs = self.prenet(torch.cat([go, mels[:, :-1]], dim=1))
        frames, aligns = [], []
        for x in inputs.unbind(1):
            h1, c1 = self.att_rnn(torch.cat([x, context], -1), (h1, c1))
            context, w = self.attention(h1, memory, keys, w, total, pad)
            total = total + w
            h2, c2 = self.dec_rnn(torch.cat([h1, context], -1), (h2, c2))
            frames.append(self.frame(torch.cat([h2, context], -1)))
            aligns.append(w)
        return torch.stack(frames, 1), torch.stack(aligns, 1)
