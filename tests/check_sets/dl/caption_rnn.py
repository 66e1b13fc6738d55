"""Bildbeschreibung: LSTM-Decoder mit additiver Aufmerksamkeit auf Bildregionen.

Nach Xu et al. (2015), weiche Variante:
    e_r = v . tanh(W_a a_r + W_h h),   alpha = softmax über die Regionen r,   z = sum alpha_r a_r
Alle Tensoren zeitlich bzw. räumlich zuerst: Regionen (R, B, A), Wörter (T, B).
"""
import torch
from torch import nn
import torch.nn.functional as F


class RegionAttention(nn.Module):
    def __init__(self, a_dim, h_dim, att_dim):
        super().__init__()
        self.W_a = nn.Linear(a_dim, att_dim)
        self.W_h = nn.Linear(h_dim, att_dim)
        self.v = nn.Linear(att_dim, 1)

    def forward(self, a, h):
        """a (R, B, A), h (B, H) -> z (B, A), alpha (R, B); alpha summiert sich für jedes Bild
        über die Regionen zu eins."""
        e = self.v(self.W_a(a) + self.W_h(h).unsqueeze(0)).squeeze(-1)
        alpha = F.softmax(e, dim=1)
        z = (alpha.unsqueeze(-1) * a).sum(dim=0)
        return z, alpha


class Captioner(nn.Module):
    def __init__(self, vocab, emb, a_dim, h_dim, att_dim):
        super().__init__()
        self.emb = nn.Embedding(vocab, emb)
        self.att = RegionAttention(a_dim, h_dim, att_dim)
        self.init_h = nn.Linear(a_dim, h_dim)
        self.init_c = nn.Linear(a_dim, h_dim)
        self.cell = nn.LSTMCell(emb + a_dim, h_dim)
        self.out = nn.Linear(h_dim, vocab)

    def forward(self, a, words):
        """a (R, B, A), words (T, B), Eingabewörter -> logits (T, B, vocab), alphas (T, R, B)"""
        mean = a.mean(dim=0)
        h, c = torch.tanh(self.init_h(mean)), torch.tanh(self.init_c(mean))
        logits, alphas = [], []
        for w in words:
            z, alpha = self.att(a, h)
            h, c = self.cell(torch.cat([self.emb(w), z], dim=1), (h, c))
            logits.append(self.out(h))
            alphas.append(alpha)
        return torch.stack(logits), torch.stack(alphas)
