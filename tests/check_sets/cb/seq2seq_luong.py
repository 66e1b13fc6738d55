"""Global attention decoder in the style of Luong, Pham & Manning (2015).

Reproduction of the "general" + input-feeding row of Table 1, shrunk to fit on a
laptop. Used for date normalisation ("3rd of may 1998" -> "1998-05-03").
"""
from typing import NamedTuple, Optional

import torch
from torch import Tensor, nn
import torch.nn.functional as F


class DecState(NamedTuple):
    h: Tensor        # [layers, B, D]
    c: Tensor        # [layers, B, D]
    feed: Tensor     # [B, D]   attentional vector of the previous step


class LuongDecoder(nn.Module):
    """score(h_t, h_s) = h_t^T W_a h_s (the paper does not scale it).

    h~_t = tanh(W_c [c_t ; h_t]); logits = W_s h~_t. The attentional vector is
    concatenated with the next input embedding.
    """

    def __init__(self, n_tokens: int, dim: int, layers: int = 1, dropout: float = 0.2):
        super().__init__()
        self.emb = nn.Embedding(n_tokens, dim)
        self.rnn = nn.LSTM(2 * dim, dim, num_layers=layers, batch_first=True)
        self.W_a = nn.Linear(dim, dim, bias=False)
        self.W_c = nn.Linear(2 * dim, dim, bias=False)
        self.W_s = nn.Linear(dim, n_tokens)
        self.drop = nn.Dropout(dropout)
        self.layers, self.dim = layers, dim

    def start(self, batch: int) -> DecState:
        z = self.W_c.weight.new_zeros
        return DecState(z(self.layers, batch, self.dim), z(self.layers, batch, self.dim), z(batch, self.dim))

    def attend(self, top: Tensor, enc: Tensor, lengths: Optional[Tensor]) -> Tensor:
        # top [B, D]; enc [B, S, D] -> weights [B, S]
        score = torch.einsum("bd,bsd->bs", top, self.W_a(enc))
        if lengths is not None:
            valid = torch.arange(enc.shape[1], device=enc.device).unsqueeze(0) < lengths.unsqueeze(1)
            score = score.masked_fill(~valid, torch.finfo(score.dtype).min)
        return F.softmax(score, dim=1)

    def step(self, token: Tensor, state: DecState, enc: Tensor, lengths: Optional[Tensor] = None):
        x = torch.cat([self.drop(self.emb(token)), state.feed], dim=-1)
        out, (h, c) = self.rnn(x.unsqueeze(1), (state.h, state.c))
        top = out[:, 0]
        a = self.attend(top, enc, lengths)
        context = torch.einsum("bs,bsd->bd", a, enc)
        attentional = torch.tanh(self.W_c(torch.cat([context, top], dim=-1)))
        logits = self.W_s(self.drop(attentional))
        return logits, DecState(h, c, attentional), a

    def forward(self, tokens: Tensor, enc: Tensor, lengths: Optional[Tensor] = None):
        """Teacher forcing. tokens [B, T] -> logits [B, T, V], weights [B, T, S]."""
        state = self.start(tokens.shape[0])
        logits, weights = [], []
        for t in range(tokens.shape[1]):
            o, state, a = self.step(tokens[:, t], state, enc, lengths)
            logits.append(o)
            weights.append(a)
        return torch.stack(logits, 1), torch.stack(weights, 1)
