"""Attention decoder for the receipt reader (CRNN columns -> characters)."""
import torch
import torch.nn as nn


class ColumnAttention(nn.Module):
    """score(s, h_j) = v . tanh(W s + U h_j), weights over the image columns j.

    `widths` holds the number of real columns of each image, the rest is white padding.
    """

    def __init__(self, state, feat, inner):
        super().__init__()
        self.W = nn.Linear(state, inner)
        self.U = nn.Linear(feat, inner, bias=False)
        self.v = nn.Linear(inner, 1, bias=False)

    def forward(self, s, cols, widths):
        # s [B,S]   cols [T,B,F]   widths [B]
        T = cols.size(0)
        e = self.v(torch.tanh(self.W(s).unsqueeze(0) + self.U(cols))).squeeze(-1)   # [T,B]
        pad = torch.arange(T, device=cols.device)[:, None] >= widths[None, :]
        e = e.masked_fill(pad, float("-inf"))
        a = torch.softmax(e, dim=0)
        glimpse = (a.unsqueeze(-1) * cols).sum(0)
        return glimpse, a.t()


class CharDecoder(nn.Module):
    def __init__(self, n_chars, feat=32, state=24, inner=20, emb=12):
        super().__init__()
        self.emb = nn.Embedding(n_chars, emb)
        self.att = ColumnAttention(state, feat, inner)
        self.cell = nn.GRUCell(emb + feat, state)
        self.out = nn.Linear(state + feat, n_chars)
        self.state = state

    def step(self, prev, s, cols, widths):
        g, a = self.att(s, cols, widths)
        s = self.cell(torch.cat([self.emb(prev), g], -1), s)
        return self.out(torch.cat([s, g], -1)), s, a

    def forward(self, cols, widths, target):
        B = cols.size(1)
        s = cols.new_zeros(B, self.state)
        logits = []
        for t in range(target.size(1)):
            y, s, _ = self.step(target[:, t], s, cols, widths)
            logits.append(y)
        return torch.stack(logits, 1)

    @torch.no_grad()
    def read(self, cols, widths, bos=1, steps=40):
        s = cols.new_zeros(cols.size(1), self.state)
        tok = torch.full((cols.size(1),), bos, dtype=torch.long, device=cols.device)
        res = []
        for _ in range(steps):
            y, s, _ = self.step(tok, s, cols, widths)
            tok = y.argmax(-1)
            res.append(tok)
        return torch.stack(res, 1)
