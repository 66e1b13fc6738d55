"""Recurrent decoder with additive attention, coverage and copy gate
(after See et al. 2017, "Get To The Point").

CopyDecoderStep(emb, hidden, enc_dim, vocab)
    forward(word, state, memory, real, coverage, source_ids)
        word        (B, emb)              embedding of the last word
        state       (h, c), both (B, hidden)
        memory      (B, S, enc_dim)       encoder states
        real        (B, S) bool, True = real source word, False = padding
        coverage    (B, S)                sum of the weights of earlier steps
        source_ids  (B, S) ids of the source words in the vocabulary
    ->  (p, state, weights, coverage)
        p           (B, vocab)            p_gen * p_vocab + (1 - p_gen) * copies
        weights     (B, S)                sum to one, 0 for padding

    e_s = v . tanh(W_h memory_s + W_s h + w_c coverage_s + b)
    weights = softmax of e over the real source words
A source has at least one real word.
"""
import torch
from torch import nn


class CopyDecoderStep(nn.Module):
    def __init__(self, emb, hidden, enc_dim, vocab):
        super().__init__()
        self.cell = nn.LSTMCell(emb + enc_dim, hidden)
        self.w_mem = nn.Linear(enc_dim, hidden, bias=False)
        self.w_state = nn.Linear(hidden, hidden)
        self.w_cov = nn.Linear(1, hidden, bias=False)
        self.v = nn.Linear(hidden, 1, bias=False)
        self.p_gen = nn.Linear(enc_dim + hidden + emb, 1)
        self.pre = nn.Linear(hidden + enc_dim, hidden)
        self.vocab = nn.Linear(hidden, vocab)

    def attend(self, h, memory, real, coverage):
        features = self.w_mem(memory) + self.w_state(h).unsqueeze(1) + self.w_cov(coverage.unsqueeze(-1))
        e = self.v(features).squeeze(-1)                       # (B, S)
        e.masked_fill(~real, float("-inf"))
        weights = torch.softmax(e, dim=1)
        context = torch.bmm(weights.unsqueeze(1), memory).squeeze(1)
        return context, weights

    def forward(self, word, state, memory, real, coverage, source_ids):
        # the context that goes into the cell is read with the old state
        context, _ = self.attend(state[0], memory, real, coverage)
        h, c = self.cell(torch.cat([word, context], dim=-1), state)

        context, weights = self.attend(h, memory, real, coverage)
        coverage = coverage + weights

        gate = torch.sigmoid(self.p_gen(torch.cat([context, h, word], dim=-1)))   # (B, 1)
        logits = self.vocab(self.pre(torch.cat([h, context], dim=-1)))
        p = gate * torch.softmax(logits, dim=-1)
        p = p.scatter_add(1, source_ids, (1 - gate) * weights)
        return p, (h, c), weights, coverage
