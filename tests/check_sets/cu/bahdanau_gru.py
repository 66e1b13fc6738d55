# NMT decoder, Bahdanau style. Time major!  (T, B, ...)
import torch
import torch.nn as nn


class Align(nn.Module):
    """e_j = v^T tanh(W s + U h_j),  a = softmax over source positions j."""

    def __init__(self, ds, dh, da):
        super().__init__()
        self.W = nn.Linear(ds, da)
        self.U = nn.Linear(dh, da, bias=False)
        self.v = nn.Parameter(torch.randn(da) / da ** 0.5)

    def forward(self, s, Uh, h, dead):
        e = torch.tanh(self.W(s) + Uh) @ self.v           # (S,B,da) -> (S,B)
        e = e.masked_fill(dead, -float("inf"))
        a = e.softmax(0)                                    # time is axis 0
        return torch.einsum("sb,sbd->bd", a, h), a


class GRUDecoder(nn.Module):
    def __init__(self, V=37, de=12, ds=20, dh=16, da=14):
        super().__init__()
        self.emb = nn.Embedding(V, de)
        self.init = nn.Linear(dh, ds)
        self.att = Align(ds, dh, da)
        self.cell = nn.GRUCell(de + dh, ds)
        self.out = nn.Linear(ds + dh + de, V)

    def forward(self, h, lens, y):
        """h: (S,B,dh) encoder states, lens: (B,) all >= 1, y: (T,B) decoder input ids.
        Returns logits (T,B,V), weights (T,S,B)."""
        S = h.size(0)
        dead = torch.arange(S, device=h.device)[:, None] >= lens[None]
        alive = (~dead).to(h)[..., None]
        s = torch.tanh(self.init((h * alive).sum(0) / alive.sum(0)))
        Uh = self.att.U(h)             # once per sentence
        logits, weights = [], []
        for e in self.emb(y):
            c, a = self.att(s, Uh, h, dead)
            s = self.cell(torch.cat([e, c], 1), s)
            logits.append(self.out(torch.cat([s, c, e], 1)))
            weights.append(a)
        return torch.stack(logits), torch.stack(weights)
