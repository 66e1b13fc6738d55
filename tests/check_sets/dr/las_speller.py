"""Speller (decoder) of a listen-attend-spell recogniser with location-aware
attention, Chorowski et al. 2015.

At output step t, with s = decoder state before the step, h_j = encoder frame j,
a^{t-1} = weights of the step before:

    f   = conv1d(a^{t-1})                                  location features
    e_j = w . tanh(W s + V h_j + U f_j + b)
    a   = softmax_j(e_j)   over the frames j < lengths
    c   = sum_j a_j h_j
    s'  = GRUCell([embed(y_{t-1}); c], s)
    logits_t = out([s'; c])

a^0 is uniform over the valid frames of each utterance. s_0 = 0.

enc     (B, T, E) encoder output, right-padded
lengths (B,)      number of valid frames, >= 1
tokens  (B, S)    teacher forced inputs (y_0 = <sos>, ...)
returns logits (B, S, vocab), weights (B, S, T)
"""
import torch
import torch.nn as nn


class LocationAttention(nn.Module):
    def __init__(self, dec_dim, enc_dim, att_dim, channels=10, width=7):
        super().__init__()
        self.W = nn.Linear(dec_dim, att_dim)
        self.V = nn.Linear(enc_dim, att_dim, bias=False)
        self.U = nn.Linear(channels, att_dim, bias=False)
        self.conv = nn.Conv1d(1, channels, width, padding=width // 2, bias=False)
        self.w = nn.Linear(att_dim, 1, bias=False)

    def forward(self, s, enc, enc_proj, prev, pad):
        f = self.conv(prev.unsqueeze(1)).transpose(1, 2)
        e = self.w(torch.tanh(self.W(s).unsqueeze(1) + enc_proj + self.U(f))).squeeze(2)
        a = torch.softmax(e.masked_fill(pad, float("-inf")), dim=1)
        return torch.bmm(a.unsqueeze(1), enc).squeeze(1), a


class Speller(nn.Module):
    def __init__(self, vocab, enc_dim=64, dec_dim=48, emb=32, att_dim=40):
        super().__init__()
        self.embed = nn.Embedding(vocab, emb)
        self.att = LocationAttention(dec_dim, enc_dim, att_dim)
        self.cell = nn.GRUCell(emb + enc_dim, dec_dim)
        self.out = nn.Linear(dec_dim + enc_dim, vocab)

    def forward(self, enc, lengths, tokens):
        B, T, _ = enc.shape
        pad = torch.arange(T, device=enc.device)[None] >= lengths[:, None]
        a = (~pad).to(enc.dtype) / lengths[:, None].to(enc.dtype)
        enc_proj = self.att.V(enc)           # once per utterance
        s = enc.new_zeros(B, self.cell.hidden_size)
        logits, ws = [], []
        for y in self.embed(tokens).unbind(1):
            c, a = self.att(s, enc, enc_proj, a, pad)
            s = self.cell(torch.cat([y, c], -1), s)
            logits.append(self.out(torch.cat([s, c], -1)))
            ws.append(a)
        return torch.stack(logits, 1), torch.stack(ws, 1)
