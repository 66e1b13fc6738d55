"""Phrase encoder-decoder of Cho et al. 2014, the fixed-length summary version.

The encoder GRU squeezes the source phrase into c (its state at the last real
word); the decoder sees c at every step, next to the previous word, and the
output layer is a maxout over [state, word, c].  Used to score phrase pairs.

``PhraseScorer(Vs, Vt, m, d)``
    src (B, S) long, n (B,) long: real words per source phrase (>= 1)
    tgt (B, T) long, starts with <s> = 1 and is padded with 0
returns score (B,): sum of log P(tgt[t] | tgt[<t], c) for t >= 1 without padding.
"""
import torch
import torch.nn as nn


class PhraseScorer(nn.Module):
    def __init__(self, Vs, Vt, m, d):
        super().__init__()
        self.es, self.et = nn.Embedding(Vs, m), nn.Embedding(Vt, m)
        self.enc = nn.GRU(m, d, batch_first=True)
        self.bridge = nn.Linear(d, d)
        self.dec = nn.GRU(m + d, d, batch_first=True)
        self.mix = nn.Linear(2 * d + m, 2 * d)
        self.key = nn.Linear(d, Vt)

    def summary(self, src, n):
        states, _ = self.enc(self.es(src))
        pick = (n - 1).view(-1, 1, 1).expand(-1, 1, states.size(2))
        return states.gather(1, pick).squeeze(1)

    def forward(self, src, n, tgt):
        c = self.summary(src, n)
        q = torch.tanh(self.bridge(c))
        x = self.et(tgt[:, :-1])
        ctx = c.unsqueeze(1).expand(-1, x.size(1), -1)
        s, _ = self.dec(torch.cat([x, ctx], -1), q.unsqueeze(0))
        z = self.mix(torch.cat([s, x, ctx], -1))
        z = z.view(*z.shape[:-1], -1, 2).amax(-1)              # maxout
        logp = self.key(z).log_softmax(-1)
        want = tgt[:, 1:]
        got = logp.gather(2, want.unsqueeze(-1)).squeeze(-1)
        return (got * (want != 0)).sum(1)
