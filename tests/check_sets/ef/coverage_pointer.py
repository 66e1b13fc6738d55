"""Pointer-generator step with coverage (See, Liu, Manning 2017).

step(y, s, enc, enc_mask, src_ext, coverage, n_extra)
    y        (B, E)    embedding of the previous word
    s        (B, D)    GRU state
    enc      (B, L, D) encoder states
    enc_mask (B, L)    float, 1 = word, 0 = padding (some word in every article)
    src_ext  (B, L)    long, source words in the extended vocabulary
    coverage (B, L)    sum of the attention of the earlier steps
    n_extra            number of out-of-vocabulary words of this batch
returns p_final (B, V + n_extra), new state, attention (B, L), new coverage

e_i = v . tanh(Wh h_i + Ws s_t + wc * cov_i); attention = softmax over words.
p_final = p_gen * p_vocab + (1 - p_gen) * attention on the source words.
"""
import torch
import torch.nn as nn
import torch.nn.functional as F


class PointerStep(nn.Module):
    def __init__(self, E=10, D=12, V=20):
        super().__init__()
        self.cell = nn.GRUCell(E + D, D)
        self.Wh = nn.Linear(D, D, bias=False)
        self.Ws = nn.Linear(D, D)
        self.wc = nn.Linear(1, D, bias=False)
        self.v = nn.Linear(D, 1, bias=False)
        self.gen = nn.Linear(2 * D + E, 1)
        self.vocab = nn.Sequential(nn.Linear(2 * D, D), nn.Linear(D, V))

    def attend(self, s, enc, enc_mask, coverage):
        f = self.Wh(enc) + self.Ws(s).unsqueeze(1) + self.wc(coverage.unsqueeze(-1))
        e = self.v(torch.tanh(f)).squeeze(-1)
        # masked after the softmax, then brought back to sum one
        a = F.softmax(e, dim=1) * enc_mask
        a = a / a.sum(1, keepdim=True)
        ctx = torch.bmm(a.unsqueeze(1), enc).squeeze(1)
        return ctx, a

    def step(self, y, s, enc, enc_mask, src_ext, coverage, n_extra=0):
        before, _ = self.attend(s, enc, enc_mask, coverage)
        s = self.cell(torch.cat([y, before], 1), s)
        ctx, a = self.attend(s, enc, enc_mask, coverage)
        p_gen = torch.sigmoid(self.gen(torch.cat([ctx, s, y], 1)))
        p_vocab = F.softmax(self.vocab(torch.cat([s, ctx], 1)), dim=1)
        p = F.pad(p_gen * p_vocab, (0, n_extra))
        p = p.scatter_add(1, src_ext, (1 - p_gen) * a)
        return p, s, a, coverage + a

    forward = step
