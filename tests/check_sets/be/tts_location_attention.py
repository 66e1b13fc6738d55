# -*- coding: utf-8 -*-
# Tacotron-2 decoder pieces.  Adapted for our 16 kHz Polish voice.
import torch
from torch import nn
from torch.nn import functional as F


class ConvNorm(nn.Module):
    def __init__(self, c_in, c_out, kernel):
        super().__init__()
        assert kernel % 2 == 1
        self.conv = nn.Conv1d(c_in, c_out, kernel, padding=(kernel - 1) // 2, bias=False)

    def forward(self, x):
        return self.conv(x)


def lengths_to_mask(lengths, max_len=None):
    """True on padding."""
    max_len = max_len or int(lengths.max())
    return torch.arange(max_len, device=lengths.device)[None, :] >= lengths[:, None]


class LocationSensitiveAttention(nn.Module):
    """e_t = v^T tanh(W s + V h_t + U f_t), f = conv(previous and summed weights)

    query        (B, rnn)       decoder state
    memory       (B, T, enc)    encoder outputs
    mask         (B, T)         True on padding, may be None
    history      (B, 2, T)      stacked last / cumulative weights
    returns context (B, enc), weights (B, T)
    """

    def __init__(self, rnn, enc, dim=32, n_filters=8, kernel=7):
        super().__init__()
        self.query_layer = nn.Linear(rnn, dim, bias=False)
        self.memory_layer = nn.Linear(enc, dim, bias=False)
        self.location_conv = ConvNorm(2, n_filters, kernel)
        self.location_dense = nn.Linear(n_filters, dim, bias=False)
        self.v = nn.Linear(dim, 1, bias=False)
        self.score_mask_value = -float("inf")

    def forward(self, query, memory, history, mask=None, processed=None):
        if processed is None:
            processed = self.memory_layer(memory)
        loc = self.location_dense(self.location_conv(history).transpose(1, 2))
        e = self.v(torch.tanh(self.query_layer(query.unsqueeze(1)) + processed + loc)).squeeze(-1)
        if mask is not None:
            e = e.masked_fill(mask, self.score_mask_value)
        w = F.softmax(e, dim=1)
        ctx = torch.bmm(w.unsqueeze(1), memory).squeeze(1)
        return ctx, w


class MiniDecoder(nn.Module):
    def __init__(self, n_mels=20, enc=24, rnn=28):
        super().__init__()
        self.n_mels, self.rnn_dim = n_mels, rnn
        self.cell = nn.LSTMCell(n_mels + enc, rnn)
        self.attention = LocationSensitiveAttention(rnn, enc)
        self.proj = nn.Linear(rnn + enc, n_mels)

    def forward(self, memory, lengths, mels):
        b, t, enc = memory.shape
        h = memory.new_zeros(b, self.rnn_dim)
        c = torch.zeros_like(h)
        ctx = memory.new_zeros(b, enc)
        last = memory.new_zeros(b, t)
        total = memory.new_zeros(b, t)
        mask = lengths_to_mask(lengths, t)
        keys = self.attention.memory_layer(memory)
        frame = memory.new_zeros(b, self.n_mels)
        outs, aligns = [], []
        for step in range(mels.shape[1]):
            h, c = self.cell(torch.cat([frame, ctx], -1), (h, c))
            ctx, last = self.attention(h, memory, torch.stack([last, total], 1), mask, keys)
            total = total + last
            outs.append(self.proj(torch.cat([h, ctx], -1)))
            aligns.append(last)
            frame = mels[:, step]
        return torch.stack(outs, 1), torch.stack(aligns, 1)
