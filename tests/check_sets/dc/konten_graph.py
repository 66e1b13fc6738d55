# Geldwäsche: accounts are nodes, transfers are edges (from, to) with amounts.
import torch
from torch import nn
import torch.nn.functional as F


def pro_knoten(logits, ziel, n):
    """Softmax over all edges that end in the same node. logits (E, H), ziel (E,)"""
    idx = ziel[:, None].expand_as(logits)
    top = logits.new_full((n, logits.size(1)), float("-inf")).scatter_reduce(0, idx, logits, "amax")
    e = (logits - top[ziel]).exp()
    summe = torch.zeros_like(top).index_add(0, ziel, e)
    return e / summe[ziel]


class KontenSchicht(nn.Module):
    def __init__(self, ein, aus, H=3):
        super().__init__()
        self.H, self.aus = H, aus
        self.lin_von = nn.Linear(ein, H * aus)
        self.lin_nach = nn.Linear(ein, H * aus)
        self.lin_betrag = nn.Linear(1, H * aus, bias=False)
        self.a = nn.Parameter(torch.randn(H, aus) / aus ** 0.5)

    def forward(self, x, edge_index, betrag):
        n = x.size(0)
        schleife = torch.arange(n, device=x.device)
        von = torch.cat([edge_index[0], schleife])
        nach = torch.cat([edge_index[1], schleife])
        betrag = torch.cat([betrag, betrag.new_zeros(n)])
        s = self.lin_von(x).view(n, self.H, self.aus)
        t = self.lin_nach(x).view(n, self.H, self.aus)
        b = self.lin_betrag(torch.log1p(betrag)[:, None]).view(-1, self.H, self.aus)
        logits = (F.leaky_relu(s[von] + t[nach] + b, 0.2) * self.a).sum(-1)
        alpha = pro_knoten(logits, nach, n)
        neu = x.new_zeros(n, self.H, self.aus).index_add(0, nach, alpha.unsqueeze(-1) * s[von])
        return F.elu(neu.flatten(1))
