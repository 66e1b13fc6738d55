"""Listen-attend-spell decoder with location aware attention."""
from collections import namedtuple

import torch
import torch.nn as nn
from torch.nn.utils.rnn import PackedSequence, pad_packed_sequence

DecState = namedtuple("DecState", ["h", "c", "ctx", "align"])


class LocationAttention(nn.Module):
    """e_t = w . tanh(W s + V h_t + U f_t + b) with f = conv(previous alignment)."""

    def __init__(self, enc_dim, dec_dim, att_dim, n_filt=4, width=5):
        super().__init__()
        self.W = nn.Linear(dec_dim, att_dim)
        self.V = nn.Linear(enc_dim, att_dim, bias=False)
        self.U = nn.Linear(n_filt, att_dim, bias=False)
        self.conv = nn.Conv1d(1, n_filt, width, padding=width // 2, bias=False)
        self.w = nn.Linear(att_dim, 1, bias=False)

    def forward(self, s, enc, lens, prev):
        f = self.conv(prev.unsqueeze(1)).transpose(1, 2)
        e = self.w(torch.tanh(self.W(s).unsqueeze(1) + self.V(enc) + self.U(f))).squeeze(2)
        dead = torch.arange(enc.size(1), device=enc.device).unsqueeze(0) >= lens.unsqueeze(1)
        a = torch.softmax(e.masked_fill(dead, float("-inf")), dim=1)
        return torch.bmm(a.unsqueeze(1), enc).squeeze(1), a


class Speller(nn.Module):
    def __init__(self, vocab, emb=16, enc_dim=24, dec_dim=32, att_dim=20):
        super().__init__()
        self.emb = nn.Embedding(vocab, emb)
        self.cell = nn.LSTMCell(emb + enc_dim, dec_dim)
        self.att = LocationAttention(enc_dim, dec_dim, att_dim)
        self.out = nn.Linear(dec_dim + enc_dim, vocab)
        self.dec_dim = dec_dim

    def start(self, enc, lens):
        b, t, e = enc.shape
        z = enc.new_zeros(b, self.dec_dim)
        live = torch.arange(t, device=enc.device)[None] < lens[:, None]
        flat = live.to(enc.dtype) / lens[:, None].to(enc.dtype)
        return DecState(z, z, enc.new_zeros(b, e), flat)

    def step(self, tok, st: DecState, enc, lens):
        h, c = self.cell(torch.cat([self.emb(tok), st.ctx], 1), (st.h, st.c))
        ctx, a = self.att(h, enc, lens, st.align)
        return self.out(torch.cat([h, ctx], 1)), DecState(h, c, ctx, a)

    def forward(self, packed: PackedSequence, tokens):
        """packed listener output, tokens (B, U) teacher forcing -> logits (B,U,V), align (B,U,T)"""
        enc, lens = pad_packed_sequence(packed, batch_first=True)
        lens = lens.to(enc.device)
        st = self.start(enc, lens)
        ys, al = [], []
        for u in range(tokens.size(1)):
            y, st = self.step(tokens[:, u], st, enc, lens)
            ys.append(y)
            al.append(st.align)
        return torch.stack(ys, 1), torch.stack(al, 1)
