"""End-to-End Memory Networks (Sukhbaatar et al. 2015) voor bAbI, aangrenzende gewichten uitgeschakeld.

    p_i = softmax(u^T m_i),  o = sum_i p_i c_i,  u' = u + o
m_i komt uit inbedding A, c_i uit inbedding C.
"""
import torch
import torch.nn as nn


class Sprong(nn.Module):
    """een stap (hop); zinnen (B, Z, W) woordnummers, 0 = leeg; tijd is een inbedding per plaats"""

    def __init__(self, woorden, e, zinnen):
        super().__init__()
        self.A = nn.Embedding(woorden, e, padding_idx=0)
        self.C = nn.Embedding(woorden, e, padding_idx=0)
        self.TA = nn.Parameter(torch.randn(zinnen, e) * 0.1)
        self.TC = nn.Parameter(torch.randn(zinnen, e) * 0.1)

    def forward(self, u, zinnen):
        Z = zinnen.shape[1]
        m = self.A(zinnen).sum(2) + self.TA[:Z]
        c = self.C(zinnen).sum(2) + self.TC[:Z]
        leeg = (zinnen == 0).all(-1)
        s = torch.einsum("be,bze->bz", u, m).masked_fill(leeg, -1e9)
        p = torch.softmax(s, dim=-1)
        o = torch.einsum("bz,bze->be", p, m)
        return u + o, p


class GeheugenNetwerk(nn.Module):
    """zinnen (B, Z, W), vraag (B, W) -> antwoord (B, woorden) en de aandacht van elke sprong (B, sprongen, Z)"""

    def __init__(self, woorden=30, e=20, sprongen=2, max_zinnen=20):
        super().__init__()
        self.B = nn.Embedding(woorden, e, padding_idx=0)
        self.lagen = nn.ModuleList(Sprong(woorden, e, max_zinnen) for _ in range(sprongen))
        self.W = nn.Linear(e, woorden, bias=False)

    def forward(self, zinnen, vraag):
        u = self.B(vraag).sum(1)
        kijk = []
        for laag in self.lagen:
            u, p = laag(u, zinnen)
            kijk.append(p)
        return self.W(u), torch.stack(kijk, 1)
