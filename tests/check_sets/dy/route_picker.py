"""Logistics: which stop does the truck serve next?  (attention model with a pointer)

StopPicker(dim, heads, clip).forward(stops, truck, served) -> (B, N) log-probabilities
    stops   (B, N, dim) embedded stops
    truck   (B, dim)    state of the truck
    served  (B, N) bool, True = already served, must not be picked; at least one stop is open
Step 1, glimpse: the truck attends to the open stops with `heads` heads (1/sqrt(dim/heads)).
Step 2, pointer: logit_n = clip * tanh(g . k_n / sqrt(dim)) for the open stops, -inf for served.
"""
import math
import torch
import torch.nn as nn


class StopPicker(nn.Module):
    def __init__(self, dim=32, heads=4, clip=10.0):
        super().__init__()
        self.heads, self.clip = heads, clip
        self.ask = nn.Linear(dim, dim, bias=False)
        self.tell = nn.Linear(dim, 3 * dim, bias=False)
        self.mix = nn.Linear(dim, dim, bias=False)

    def forward(self, stops, truck, served):
        B, N, D = stops.shape
        d = D // self.heads
        gk, gv, pk = self.tell(stops).chunk(3, dim=-1)
        q = self.ask(truck).view(B, self.heads, d)
        gk, gv = gk.view(B, N, self.heads, d), gv.view(B, N, self.heads, d)

        u = torch.einsum("bhd,bnhd->bhn", q, gk) / math.sqrt(d)
        u = u.masked_fill(served[:, None, :], -math.inf)
        g = torch.einsum("bhn,bnhd->bhd", torch.softmax(u, dim=-1), gv).reshape(B, D)
        g = self.mix(g)

        logit = torch.bmm(pk, g.unsqueeze(2)).squeeze(2) / math.sqrt(D)
        logit = self.clip * torch.tanh(logit)
        logit = logit.masked_fill(served, -math.inf)
        return torch.log_softmax(logit, dim=1)
