"""Speller of a Listen-Attend-Spell recogniser (command words, 1 s clips).

SpellerCell(y_prev, ctx, state, listen, n_frames)
    y_prev   (B,) long          previous character
    ctx      (B, D)             previous context
    state    (h, c) each (B, D)
    listen   (B, U, D)          listener output
    n_frames (B,) long          valid frames of each clip, >= 1
returns
    logits (B, V), ctx (B, D), state, align (B, U)
where align holds the attention weights of this step (non-negative, each row
sums to one, zero on frames past the end) for plotting and the guided loss.
Attention: <phi(h), psi(u)> / sqrt(A), softmax over valid frames.
"""
import torch
import torch.nn as nn


class SpellerCell(nn.Module):
    def __init__(self, V=32, D=20, A=12):
        super().__init__()
        self.embed = nn.Embedding(V, D)
        self.rnn = nn.LSTMCell(2 * D, D)
        self.phi = nn.Linear(D, A)
        self.psi = nn.Linear(D, A)
        self.char = nn.Linear(2 * D, V)
        self.temper = A ** 0.5

    def forward(self, y_prev, ctx, state, listen, n_frames):
        h, c = self.rnn(torch.cat([self.embed(y_prev), ctx], -1), state)
        align = torch.bmm(self.psi(listen), self.phi(h).unsqueeze(-1)).squeeze(-1)
        align = align / self.temper
        frame = torch.arange(listen.size(1), device=listen.device)
        align = align.masked_fill(frame >= n_frames.unsqueeze(-1), float("-inf"))
        ctx = torch.einsum("bu,bud->bd", align.softmax(-1), listen)
        logits = self.char(torch.cat([h, ctx], -1))
        return logits, ctx, (h, c), align
