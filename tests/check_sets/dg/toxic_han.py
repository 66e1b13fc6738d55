# Toxic comments, HAN kernel (words -> sentences -> document)
import torch
import torch.nn as nn


class Pool(nn.Module):
    def __init__(self, dim):
        super().__init__()
        self.proj = nn.Linear(dim, dim)
        self.ctx = nn.Parameter(torch.empty(dim).uniform_(-0.1, 0.1))

    def forward(self, x, mask):
        """x (N, T, D), mask (N, T) True = token; an empty row gives a zero vector."""
        u = torch.tanh(self.proj(x))
        s = u @ self.ctx
        s = s.masked_fill(~mask, torch.finfo(s.dtype).min)
        a = torch.softmax(s, dim=1) * mask
        return torch.einsum("nt,ntd->nd", a, x), a


class HAN(nn.Module):
    def __init__(self, vocab=100, emb=16, hid=24, labels=6):
        super().__init__()
        self.emb = nn.Embedding(vocab, emb, padding_idx=0)
        self.gru_w = nn.GRU(emb, hid, batch_first=True)
        self.gru_s = nn.GRU(hid, hid, batch_first=True)
        self.pool_w = Pool(hid)
        self.pool_s = Pool(hid)
        self.fc = nn.Linear(hid, labels)

    def forward(self, ids):
        """ids (B, S, T) with 0 = padding -> (B, labels)"""
        B, S, T = ids.shape
        words = ids.view(B * S, T)
        h, _ = self.gru_w(self.emb(words))
        sent, _ = self.pool_w(h, words != 0)
        h, _ = self.gru_s(sent.view(B, S, -1))
        doc, _ = self.pool_s(h, (ids != 0).any(-1))
        return self.fc(doc)
