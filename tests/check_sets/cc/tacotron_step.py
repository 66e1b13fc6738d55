"""One decoder step of a Tacotron-2-like synthesiser with location-sensitive attention.

The energies are v . tanh(W s + V h_j + U f_j), f being a convolution over the previous and
the cumulated alignment.  The context of a step is the sum of the encoder
outputs weighted by the alignment of that same step.
"""
import torch
from torch import nn


class LocationSensitiveAttention(nn.Module):
    def __init__(self, query_dim, memory_dim, attn_dim=16, filters=4, kernel=5):
        super().__init__()
        self.query_layer = nn.Linear(query_dim, attn_dim, bias=False)
        self.memory_layer = nn.Linear(memory_dim, attn_dim, bias=False)
        self.location_conv = nn.Conv1d(2, filters, kernel, padding=kernel // 2, bias=False)
        self.location_dense = nn.Linear(filters, attn_dim, bias=False)
        self.v = nn.Linear(attn_dim, 1, bias=False)

    def forward(self, query, memory, pad_mask, previous, cumulative):
        loc = self.location_conv(torch.stack([previous, cumulative], dim=1))
        loc = self.location_dense(loc.transpose(1, 2))
        energies = self.v(
            torch.tanh(self.query_layer(query).unsqueeze(1) + self.memory_layer(memory) + loc)
        ).squeeze(-1)
        energies = energies.masked_fill(pad_mask, float("-inf"))
        weights = torch.softmax(energies, dim=1)
        context = torch.bmm(previous.unsqueeze(1), memory).squeeze(1)
        return context, weights


class DecoderStep(nn.Module):
    def __init__(self, n_mels=10, memory_dim=20, rnn_dim=24, prenet=12):
        super().__init__()
        self.prenet = nn.Sequential(nn.Linear(n_mels, prenet), nn.ReLU())
        self.attention_rnn = nn.LSTMCell(prenet + memory_dim, rnn_dim)
        self.attention = LocationSensitiveAttention(rnn_dim, memory_dim)
        self.decoder_rnn = nn.LSTMCell(rnn_dim + memory_dim, rnn_dim)
        self.mel = nn.Linear(rnn_dim + memory_dim, n_mels)
        self.stop = nn.Linear(rnn_dim + memory_dim, 1)
        self.rnn_dim = rnn_dim

    def start(self, memory):
        b, t, d = memory.shape
        h = memory.new_zeros(b, self.rnn_dim)
        first = memory.new_zeros(b, t)
        first[:, 0] = 1.0
        return {"a": (h, h), "d": (h, h), "w": first, "cum": first.clone(), "ctx": memory.new_zeros(b, d)}

    def forward(self, frame, st, memory, pad_mask):
        x = torch.cat([self.prenet(frame), st["ctx"]], dim=-1)
        a = self.attention_rnn(x, st["a"])
        ctx, w = self.attention(a[0], memory, pad_mask, st["w"], st["cum"])
        d = self.decoder_rnn(torch.cat([a[0], ctx], dim=-1), st["d"])
        y = torch.cat([d[0], ctx], dim=-1)
        new = {"a": a, "d": d, "w": w, "cum": st["cum"] + w, "ctx": ctx}
        return self.mel(y), self.stop(y), new
