"""Pointer-generator decoder (See et al. 2017, "Get To The Point").

P(w) = p_gen * P_vocab(w) + (1 - p_gen) * sum_{i: w_i = w} a_i
over the vocabulary extended with the article's OOV words.
"""
from typing import Optional, Tuple

import torch
import torch.nn as nn


class CoverageAttention(nn.Module):
    def __init__(self, hidden: int, use_coverage: bool = True):
        super().__init__()
        self.W_h = nn.Linear(hidden, hidden, bias=False)
        self.W_s = nn.Linear(hidden, hidden)
        self.w_c = nn.Linear(1, hidden, bias=False) if use_coverage else None
        self.v = nn.Linear(hidden, 1, bias=False)

    def forward(self, state: torch.Tensor, memory: torch.Tensor, pad_mask: torch.Tensor,
                coverage: Optional[torch.Tensor] = None) -> Tuple[torch.Tensor, torch.Tensor]:
        # pad_mask: 1. for article tokens, 0. for padding
        feat = self.W_h(memory) + self.W_s(state).unsqueeze(1)
        if self.w_c is not None and coverage is not None:
            feat = feat + self.w_c(coverage.unsqueeze(-1))
        energy = self.v(torch.tanh(feat)).squeeze(-1)
        attn = torch.softmax(energy, dim=1) * pad_mask
        context = torch.einsum("bs,bsh->bh", attn, memory)
        return context, attn


class PointerGeneratorDecoder(nn.Module):
    def __init__(self, vocab_size: int, emb: int = 24, hidden: int = 32):
        super().__init__()
        self.vocab_size = vocab_size
        self.embedding = nn.Embedding(vocab_size, emb)
        self.reduce_in = nn.Linear(emb + hidden, emb)
        self.lstm = nn.LSTMCell(emb, hidden)
        self.attention = CoverageAttention(hidden)
        self.p_gen = nn.Linear(2 * hidden + emb, 1)
        self.out = nn.Sequential(nn.Linear(2 * hidden, hidden), nn.Linear(hidden, vocab_size))

    def forward(self, y_prev, hc, context, memory, pad_mask, src_ext, n_oov, coverage):
        """One decoding step. Returns a probability distribution of shape (B, vocab + n_oov)."""
        x = self.reduce_in(torch.cat([self.embedding(y_prev), context], dim=-1))
        h, c = self.lstm(x, hc)
        context, attn = self.attention(h, memory, pad_mask, coverage)
        coverage = coverage + attn

        gate = torch.sigmoid(self.p_gen(torch.cat([context, h, x], dim=-1)))
        p_vocab = torch.softmax(self.out(torch.cat([h, context], dim=-1)), dim=-1)
        extra = p_vocab.new_zeros(p_vocab.size(0), n_oov)
        final = torch.cat([gate * p_vocab, extra], dim=-1)
        final = final.scatter_add(1, src_ext, (1 - gate) * attn)
        return final, (h, c), context, attn, coverage


def coverage_loss(attns, coverages):
    return torch.stack([torch.minimum(a, c).sum(-1) for a, c in zip(attns, coverages)]).mean()
