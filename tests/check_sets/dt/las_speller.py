"""Speller of "Listen, Attend and Spell" (Chan et al. 2016), several attention heads.

e_{i,u} = <phi(s_i), psi(h_u)> with two small networks phi and psi (ReLU), per head; the
paper uses the plain inner product, so there is no scaling. Contexts of the heads are
concatenated and mapped to the width of the listener.

Speller.forward(y, h, n)
    y (B, L) characters (teacher forcing)     h (B, U, dim) listener states
    n (B,)   number of real listener frames; later frames have weight zero
returns (B, L, vocab) logits and (B, L, heads, U) weights
"""
import torch
import torch.nn as nn


class HeadsAttend(nn.Module):
    def __init__(self, sdim, hdim, heads, k):
        super().__init__()
        self.heads, self.k = heads, k
        self.phi = nn.Sequential(nn.Linear(sdim, heads * k), nn.ReLU())
        self.psi = nn.Sequential(nn.Linear(hdim, heads * k), nn.ReLU())
        self.join = nn.Linear(heads * hdim, hdim)

    def listen(self, h, n):
        B, U, _ = h.shape
        self.h = h
        self.psi_h = self.psi(h).view(B, U, self.heads, self.k)
        dead = torch.arange(U, device=h.device)[None] >= n[:, None]
        self.bias = torch.zeros(B, 1, U, dtype=h.dtype, device=h.device)
        self.bias = self.bias.masked_fill(dead[:, None], -torch.inf)

    def forward(self, s):
        p = self.phi(s).unflatten(-1, (self.heads, self.k))
        e = torch.einsum("bhk,buhk->bhu", p, self.psi_h)
        a = torch.softmax(e + self.bias, dim=2)
        c = torch.einsum("bhu,bud->bhd", a, self.h).flatten(1)
        return self.join(c), a


class Speller(nn.Module):
    def __init__(self, vocab=30, emb=16, dim=32, hid=40, heads=3):
        super().__init__()
        self.emb = nn.Embedding(vocab, emb)
        self.r1 = nn.LSTMCell(emb + dim, hid)
        self.r2 = nn.LSTMCell(hid, hid)
        self.att = HeadsAttend(hid, dim, heads, 12)
        self.char = nn.Linear(hid + dim, vocab)

    def forward(self, y, h, n):
        self.att.listen(h, n)
        c, st1, st2 = h.new_zeros(h.size(0), h.size(2)), None, None
        out, al = [], []
        for t in range(y.size(1)):
            st1 = self.r1(torch.cat([self.emb(y[:, t]), c], dim=1), st1)
            st2 = self.r2(st1[0], st2)
            c, a = self.att(st2[0])
            out.append(self.char(torch.cat([st2[0], c], dim=1)))
            al.append(a)
        return torch.stack(out, dim=1), torch.stack(al, dim=1)
