"""One step of the pointer-generator summariser (See, Liu & Manning 2017).

    e_i  = v . tanh(W_h h_i + W_s s_t + w_c c_i + b),   a = softmax over source
    c   <- c + a                       (coverage, the sum of past attention)
    covloss = sum_i min(a_i, c_i)      (c before the update)
    P(w) = p_gen P_vocab(w) + (1 - p_gen) sum_{i: w_i = w} a_i

``PtrGenStep(vocab, emb, hid)``
    y    (B,) long, the previous word (ids >= vocab are fed as 1 = UNK)
    s    (h, c) of the LSTM cell, each (B, hid)
    enc  (B, L, 2*hid) encoder states
    ext  (B, L) long, source ids in the extended vocabulary
    pad  (B, L) bool, True = padding of the source; one real word at least
    cov  (B, L) coverage so far (zeros at first)
    ctx  (B, 2*hid) context vector of the last step (zeros at first)
    n_oov int, extra words of this batch
returns (P (B, vocab + n_oov), s, a (B, L), cov, ctx, covloss (B,))
"""
import torch
import torch.nn as nn


class PtrGenStep(nn.Module):
    def __init__(self, vocab, emb, hid):
        super().__init__()
        self.vocab = vocab
        self.emb = nn.Embedding(vocab, emb)
        self.cell = nn.LSTMCell(emb + 2 * hid, hid)
        self.Wh = nn.Linear(2 * hid, 2 * hid, bias=False)
        self.Ws = nn.Linear(2 * hid, 2 * hid)
        self.wc = nn.Linear(1, 2 * hid, bias=False)
        self.v = nn.Linear(2 * hid, 1, bias=False)
        self.pgen = nn.Linear(4 * hid + emb, 1)
        self.out = nn.Sequential(nn.Linear(3 * hid, hid), nn.Linear(hid, vocab))

    def attend(self, s, enc, pad, cov):
        st = torch.cat(s, dim=1)
        feat = self.Wh(enc) + self.Ws(st)[:, None] + self.wc(cov[..., None])
        e = self.v(torch.tanh(feat)).squeeze(-1).masked_fill(pad, float("-inf"))
        return e.softmax(dim=1)

    def forward(self, y, s, enc, ext, pad, cov, ctx, n_oov):
        y = torch.where(y < self.vocab, y, torch.ones_like(y))
        x = self.emb(y)
        s = self.cell(torch.cat([x, ctx], 1), s)
        a = self.attend(s, enc, pad, cov)
        ctx = torch.bmm(a.unsqueeze(1), enc).squeeze(1)
        covloss = torch.minimum(a, cov).sum(1)
        g = torch.sigmoid(self.pgen(torch.cat([ctx, *s, x], 1)))
        p = g * self.out(torch.cat([s[0], ctx], 1)).softmax(-1)
        p = torch.cat([p, p.new_zeros(p.size(0), n_oov)], 1)
        p = p.scatter_add(1, ext, (1 - g) * a)
        return p, s, a, cov + a, ctx, covloss
