# -*- coding: utf-8 -*-
# Listen, Attend and Spell (https://arxiv.org/abs/1508.01211), speller side.
# Encoder states arrive time-major: (T_enc, N, enc_dim).
import torch
import torch.nn as nn
from torch.autograd import Variable


def lengths_to_keep(lens, T):
    """(N,) -> (T, N), True where the frame is real."""
    r = torch.arange(T, device=lens.device).unsqueeze(1)
    return r < lens.unsqueeze(0)


class MLPScorer(nn.Module):
    """ e_t = w^T tanh(W s + V h_t + b) """

    def __init__(self, dec_dim, enc_dim, hid):
        super(MLPScorer, self).__init__()
        self.W = nn.Linear(dec_dim, hid, bias=False)
        self.V = nn.Linear(enc_dim, hid)
        self.w = nn.Linear(hid, 1, bias=False)

    def precompute(self, H):
        return self.V(H)

    def forward(self, s, VH):
        return self.w(torch.tanh(self.W(s).unsqueeze(0) + VH)).squeeze(2)     # (T, N)


class Speller(nn.Module):
    def __init__(self, n_chars, emb_dim=16, enc_dim=20, dec_dim=24, att_dim=12, sos=0):
        super(Speller, self).__init__()
        self.sos = sos
        self.dec_dim = dec_dim
        self.emb = nn.Embedding(n_chars, emb_dim)
        self.cell = nn.LSTMCell(emb_dim + enc_dim, dec_dim)
        self.cell2 = nn.LSTMCell(dec_dim, dec_dim)
        self.scorer = MLPScorer(dec_dim, enc_dim, att_dim)
        self.chars = nn.Sequential(
            nn.Linear(dec_dim + enc_dim, dec_dim),
            nn.LeakyReLU(0.2),
            nn.Linear(dec_dim, n_chars),
        )

    def attend(self, s, H, VH, keep):
        e = self.scorer(s, VH)
        e = e.masked_fill(keep == 0, -float('inf'))
        e = e - e.max(0, keepdim=True)[0]
        a = torch.exp(e)
        a = a / a.sum(0, keepdim=True)
        c = (a.unsqueeze(2) * H).sum(0)
        return c, a

    def zero_state(self, N, ref):
        z = lambda: Variable(ref.data.new(N, self.dec_dim).zero_())
        return [(z(), z()), (z(), z())]

    def step(self, y_prev, state, context, H, VH, keep):
        x = torch.cat([self.emb(y_prev), context], 1)
        h1, c1 = self.cell(x, state[0])
        h2, c2 = self.cell2(h1, state[1])
        context, a = self.attend(h2, H, VH, keep)
        logit = self.chars(torch.cat([h2, context], 1))
        return logit, [(h1, c1), (h2, c2)], context, a

    def forward(self, H, lens, targets=None, max_len=15, teacher_forcing=True):
        """
        H        (T, N, enc_dim) listener output
        lens     (N,) number of valid frames, at least 1
        targets  (N, L) character ids or None (greedy)
        returns  logits (N, L, n_chars), alignments (N, L, T)
        """
        T, N, E = H.size()
        keep = lengths_to_keep(lens, T)
        H = H * keep.unsqueeze(2).type_as(H)
        VH = self.scorer.precompute(H)
        state = self.zero_state(N, H)
        context = H.data.new(N, E).zero_()
        y = torch.full((N,), self.sos, dtype=torch.long, device=H.device)
        L = max_len if targets is None else targets.size(1)
        outs, aligns = [], []
        for i in range(L):
            logit, state, context, a = self.step(y, state, context, H, VH, keep)
            outs.append(logit)
            aligns.append(a.t())
            if targets is not None and teacher_forcing:
                y = targets[:, i]
            else:
                y = logit.max(1)[1]
        return torch.stack(outs, 1), torch.stack(aligns, 1)
