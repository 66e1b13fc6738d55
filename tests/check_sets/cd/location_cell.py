"""Location-sensitive attention cell (Chorowski et al. 2015) for end-to-end ASR.

    e_s = v . tanh(W_s state + W_h h_s + W_f f_s + b),   f = conv(cumulative weights)

``LASCell.forward`` does one output step; the caller keeps the state.  The
cumulative weights are the sum of the weights of all previous steps.
"""
from typing import NamedTuple

import torch
import torch.nn as nn
from torch import Tensor


class CellState(NamedTuple):
    h: Tensor
    c: Tensor
    context: Tensor
    cumulative: Tensor


class LocationAttention(nn.Module):
    def __init__(self, state_dim: int, enc_dim: int, hidden: int, filters: int = 4, width: int = 5):
        super().__init__()
        self.w_state = nn.Linear(state_dim, hidden)
        self.w_enc = nn.Linear(enc_dim, hidden, bias=False)
        self.conv = nn.Conv1d(1, filters, width, padding=width // 2, bias=False)
        self.w_loc = nn.Linear(filters, hidden, bias=False)
        self.v = nn.Linear(hidden, 1, bias=False)

    def forward(self, state: Tensor, enc: Tensor, enc_keys: Tensor, cumulative: Tensor, pad: Tensor):
        loc = self.conv(cumulative.unsqueeze(1)).transpose(1, 2)           # [B, S, filters]
        e = self.v(torch.tanh(self.w_state(state)[:, None] + enc_keys + self.w_loc(loc)))
        e = e.squeeze(-1).masked_fill(pad, float("-inf"))
        weights = e.softmax(dim=-1)
        return torch.einsum("bs,bsd->bd", weights, enc), weights


class LASCell(nn.Module):
    def __init__(self, vocab: int = 30, enc_dim: int = 24, state_dim: int = 32, hidden: int = 20):
        super().__init__()
        self.embed = nn.Embedding(vocab, 16)
        self.rnn = nn.LSTMCell(16 + enc_dim, state_dim)
        self.att = LocationAttention(state_dim, enc_dim, hidden)
        self.out = nn.Linear(state_dim + enc_dim, vocab)

    def start(self, enc: Tensor) -> CellState:
        b, s, d = enc.shape
        zero = enc.new_zeros(b, self.rnn.hidden_size)
        return CellState(zero, zero, enc.new_zeros(b, d), enc.new_zeros(b, s))

    def forward(self, token: Tensor, enc: Tensor, pad: Tensor, state: CellState):
        """token [B], enc [B, S, enc_dim], pad [B, S] (True = padding, never a whole row)"""
        h, c = self.rnn(torch.cat([self.embed(token), state.context], -1), (state.h, state.c))
        context, w = self.att(h, enc, self.att.w_enc(enc), state.cumulative, pad)
        logits = self.out(torch.cat([h, context], -1))
        return logits, w, CellState(h, c, context, state.cumulative + w)


def greedy(cell: LASCell, enc: Tensor, pad: Tensor, sos: int = 1, steps: int = 10) -> Tensor:
    token = torch.full((enc.shape[0],), sos)
    state, out = cell.start(enc), []
    for _ in range(steps):
        logits, _, state = cell(token, enc, pad, state)
        token = logits.argmax(-1)
        out.append(token)
    return torch.stack(out, 1)


if __name__ == "__main__":
    enc = torch.randn(2, 11, 24)
    pad = torch.arange(11)[None] >= torch.tensor([[11], [7]])
    print(greedy(LASCell(), enc, pad).shape)
