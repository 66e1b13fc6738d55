"""Tacotron 2 decoder attention (location sensitive) for the announcements voice.

    energies_j = v^T tanh( W s_{i} + V h_j + U f_{i,j} ),
    f_i        = conv1d( [previous weights ; cumulative weights] )
    weights    = softmax over the real encoder steps
    context    = sum_j weights_j h_j

LocationAttention(rnn_dim, enc_dim): call init_states(memory, lengths) once per utterance
(memory [B, T, enc_dim], lengths [B] int >= 1), then step(s) with s [B, rnn_dim] for each
frame.  step returns (context [B, enc_dim], weights [B, T]).
"Cumulative" is the sum of all weights of earlier steps; both start at zero.
"""
import torch
from torch import nn


class LocationAttention(nn.Module):
    def __init__(self, rnn_dim, enc_dim, att_dim=32, filters=8, kernel=7):
        super().__init__()
        self.query = nn.Linear(rnn_dim, att_dim, bias=False)
        self.memory_layer = nn.Linear(enc_dim, att_dim, bias=False)
        self.conv = nn.Conv1d(2, filters, kernel, padding=(kernel - 1) // 2, bias=False)
        self.loc = nn.Linear(filters, att_dim, bias=False)
        self.v = nn.Linear(att_dim, 1, bias=False)
        self.score_mask_value = -float("inf")

    def init_states(self, memory, lengths):
        B, T, _ = memory.shape
        self.memory = memory
        self.keys = self.memory_layer(memory)
        self.pad = torch.arange(T, device=memory.device)[None, :] >= lengths[:, None]
        self.prev = memory.new_zeros(B, T)
        self.total = memory.new_zeros(B, T)

    def energies(self, s):
        both = torch.stack([self.prev, self.total], dim=1)          # [B, 2, T]
        f = self.loc(self.conv(both).transpose(1, 2))               # [B, T, att]
        e = self.v(torch.tanh(self.query(s)[:, None] + self.keys + f))
        return e.squeeze(-1)

    def step(self, s):
        e = self.energies(s).masked_fill(self.pad, self.score_mask_value)
        w = torch.softmax(e, dim=1)
        context = torch.bmm(w.unsqueeze(1), self.memory).squeeze(1)
        self.prev = w
        self.total = self.total + w
        return context, w


class TinyDecoder(nn.Module):
    def __init__(self, n_mel, rnn_dim, enc_dim):
        super().__init__()
        self.rnn_dim, self.n_mel = rnn_dim, n_mel
        self.rnn = nn.GRUCell(n_mel + enc_dim, rnn_dim)
        self.att = LocationAttention(rnn_dim, enc_dim)
        self.mel = nn.Linear(rnn_dim + enc_dim, n_mel)

    def forward(self, memory, lengths, target):
        """target [B, F, n_mel] (teacher forcing) -> [B, F, n_mel]"""
        self.att.init_states(memory, lengths)
        s = memory.new_zeros(memory.size(0), self.rnn_dim)
        ctx, frame, out = torch.zeros_like(memory[:, 0]), torch.zeros_like(target[:, 0]), []
        for t in range(target.size(1)):
            s = self.rnn(torch.cat([frame, ctx], 1), s)
            ctx, _ = self.att.step(s)
            out.append(self.mel(torch.cat([s, ctx], 1)))
            frame = target[:, t]
        return torch.stack(out, 1)
