"""
Empfehlungen mit einem Wissensgraphen (nach KGAT, Wang et al. 2019).

Kanten liegen als drei Vektoren vor: kopf[e], relation[e], ziel[e].
Jeder Kopf sammelt die Nachrichten seiner Ziele ein:

    pi(h, r, t) = (W_r e_t)^T tanh(W_r e_h + e_r)
    Gewicht     = softmax ueber alle (r, t) mit demselben h
"""
import torch
from torch import nn
import torch.nn.functional as F


def gruppen_softmax(werte, gruppe, anzahl):
    """Softmax von werte [E] innerhalb der Gruppen gruppe [E]."""
    hoch = torch.full((anzahl,), float("-inf"), dtype=werte.dtype, device=werte.device)
    hoch = hoch.scatter_reduce(0, gruppe, werte, reduce="amax", include_self=True)
    z = torch.exp(werte - hoch[gruppe])
    nenner = torch.zeros(anzahl, dtype=werte.dtype, device=werte.device)
    nenner = nenner.index_add(0, gruppe, z)
    return z / nenner[gruppe]


class KantenAufmerksamkeit(nn.Module):
    def __init__(self, anz_rel, dim, dim_rel):
        super().__init__()
        self.rel = nn.Embedding(anz_rel, dim_rel)
        self.W = nn.Parameter(torch.empty(anz_rel, dim, dim_rel))
        nn.init.xavier_uniform_(self.W)

    def gewichte(self, ent, kopf, relation, ziel):
        pi = ent.new_zeros(kopf.numel())
        for r in torch.unique(relation).tolist():
            wo = (relation == r).nonzero().squeeze(1)
            h = ent[kopf[wo]] @ self.W[r]
            t = ent[ziel[wo]] @ self.W[r]
            pi = pi.index_copy(0, wo, (t * torch.tanh(h + self.rel.weight[r])).sum(-1))
        return gruppen_softmax(pi, kopf, ent.size(0))

    def forward(self, ent, kopf, relation, ziel):
        a = self.gewichte(ent, kopf, relation, ziel)
        nachricht = a.unsqueeze(1) * ent[ziel]
        return torch.zeros_like(ent).index_add(0, kopf, nachricht)


class BiInteraktion(nn.Module):
    def __init__(self, ein, aus, tropf=0.1):
        super().__init__()
        self.w1 = nn.Linear(ein, aus)
        self.w2 = nn.Linear(ein, aus)
        self.tropf = nn.Dropout(tropf)

    def forward(self, e, nachbar):
        s = F.leaky_relu(self.w1(e + nachbar))
        p = F.leaky_relu(self.w2(e * nachbar))
        return self.tropf(s + p)


class KGAT(nn.Module):
    def __init__(self, anz_ent, anz_rel, dim=32, schichten=(32, 16)):
        super().__init__()
        self.ent = nn.Embedding(anz_ent, dim)
        nn.init.xavier_uniform_(self.ent.weight)
        breiten = [dim] + list(schichten)
        self.aufm = nn.ModuleList(
            KantenAufmerksamkeit(anz_rel, b, b) for b in breiten[:-1])
        self.inter = nn.ModuleList(
            BiInteraktion(a, b) for a, b in zip(breiten[:-1], breiten[1:]))

    def forward(self, kopf, relation, ziel):
        e = self.ent.weight
        alle = [e]
        for att, bi in zip(self.aufm, self.inter):
            e = bi(e, att(e, kopf, relation, ziel))
            alle.append(F.normalize(e, dim=1))
        return torch.cat(alle, dim=1)

    def bpr(self, graph, nutzer, plus, minus):
        z = self(*graph)
        diff = (z[nutzer] * (z[plus] - z[minus])).sum(-1)
        return -F.logsigmoid(diff).mean()
