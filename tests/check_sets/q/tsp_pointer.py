import torch
from torch import nn


class PointerHead(nn.Module):
    """One decoding step for the travelling salesman (Bello et al. 2017): a glimpse, then a clipped pointer.

    h (B, D) decoder state; nodes (B, N, D); visited (B, N) bool, True for cities that may not be chosen again.
    Returns log p(next city), -inf for visited cities.
    """

    def __init__(self, dim, C=10.0):
        super().__init__()
        self.C = C
        self.ref_g, self.ref_p = nn.Linear(dim, dim), nn.Linear(dim, dim)
        self.q_g, self.q_p = nn.Linear(dim, dim), nn.Linear(dim, dim)
        self.v_g = nn.Parameter(torch.randn(dim))
        self.v_p = nn.Parameter(torch.randn(dim))

    def forward(self, h, nodes, visited):
        keys = self.ref_g(nodes)
        u = torch.tanh(keys + self.q_g(h)[:, None]) @ self.v_g
        g = torch.softmax(u.masked_fill(visited, -torch.inf), dim=1)
        g = (g[:, :, None] * keys).sum(1)
        u = torch.tanh(self.ref_p(nodes) + self.q_p(g)[:, None]) @ self.v_p
        u = self.C * torch.tanh(u)
        return torch.log_softmax(u.masked_fill(visited, -torch.inf), dim=1)
