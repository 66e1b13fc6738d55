"""Pointer-generator decoder with coverage (See, Liu & Manning 2017).

e_i = v . tanh(W_h h_i + W_s s_t + w_c c_i + b),   a = softmax(e) over source
c   = sum of all former a   (coverage)

The encoder features W_h h_i are computed once in `reset`.
"""
import torch
import torch.nn as nn
import torch.nn.functional as F


class CoverageAttention(nn.Module):
    def __init__(self, enc, dec, att):
        super().__init__()
        self.wh = nn.Linear(enc, att, bias=False)
        self.ws = nn.Linear(dec, att)
        self.wc = nn.Linear(1, att, bias=False)
        self.v = nn.Linear(att, 1, bias=False)

    def reset(self, memory, src_pad):
        """memory [B, S, enc]; src_pad bool [B, S], True = padding."""
        self.memory = memory
        self.feat = self.wh(memory)
        self.pad = src_pad
        self.coverage = memory.new_zeros(memory.shape[:2])

    def forward(self, s):
        """s [B, dec] -> context [B, enc], distribution [B, S], coverage loss [B]."""
        e = self.feat + self.ws(s)[:, None] + self.wc(self.coverage[..., None])
        e = self.v(torch.tanh(e)).squeeze(-1)
        a = F.softmax(e, dim=1)
        a = a * (~self.pad)
        a = a / a.sum(dim=1, keepdim=True)
        loss = torch.minimum(a, self.coverage).sum(1)
        self.coverage = self.coverage + a
        ctx = (a[:, None] @ self.memory).squeeze(1)
        return ctx, a, loss


class PointerGenerator(nn.Module):
    def __init__(self, vocab, emb=24, hid=32, att=20):
        super().__init__()
        self.vocab = vocab
        self.embed = nn.Embedding(vocab, emb, padding_idx=0)
        self.enc = nn.LSTM(emb, hid, batch_first=True, bidirectional=True)
        self.bridge = nn.Linear(2 * hid, hid)
        self.cell = nn.LSTMCell(emb + 2 * hid, hid)
        self.att = CoverageAttention(2 * hid, hid, att)
        self.p_gen = nn.Linear(2 * hid + hid + emb, 1)
        self.out = nn.Sequential(nn.Linear(3 * hid, hid), nn.Linear(hid, vocab))

    def forward(self, src, src_ext, tgt, n_oov):
        """Log-probabilities [B, T, vocab + n_oov] and mean coverage loss."""
        mem, _ = self.enc(self.embed(src))
        self.att.reset(mem, src.eq(0))
        h = torch.tanh(self.bridge(mem.mean(1)))
        c = torch.zeros_like(h)
        ctx = mem.new_zeros(mem.shape[0], mem.shape[2])
        out, cov = [], []
        for t in range(tgt.shape[1]):
            e = self.embed(tgt[:, t].where(tgt[:, t] < self.vocab, torch.ones_like(tgt[:, t])))
            h, c = self.cell(torch.cat([e, ctx], 1), (h, c))
            ctx, a, l = self.att(h)
            pg = torch.sigmoid(self.p_gen(torch.cat([ctx, h, e], 1)))
            pv = F.softmax(self.out(torch.cat([h, ctx], 1)), 1) * pg
            full = torch.cat([pv, pv.new_zeros(pv.shape[0], n_oov)], 1)
            full = full.scatter_add(1, src_ext, a * (1 - pg))
            out.append(torch.log(full + 1e-12))
            cov.append(l)
        return torch.stack(out, 1), torch.stack(cov, 1).mean()
