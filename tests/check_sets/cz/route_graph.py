import torch
from torch import nn


def per_node_softmax(e, node, n):
    top = torch.full((n, e.size(1)), float("-inf"), dtype=e.dtype, device=e.device)
    top = top.scatter_reduce(0, node[:, None].expand_as(e), e, reduce="amax")
    w = torch.exp(e - top[node])
    z = torch.zeros_like(top).index_add(0, node, w)
    return w / z[node]


class RouteGraph(nn.Module):
    """Graph attention (GATv2 form) on a road network.

    cross (N, C) crossing features; roads (2, E): roads[0] = from, roads[1] = to.
    length (E, 1). A crossing gathers the features of the crossings its incoming roads come from,
    weighted over its incoming roads. No incoming road: zeros. -> (N, C)
    """

    def __init__(self, C=12, K=3):
        super().__init__()
        self.K = K
        self.l, self.r = nn.Linear(C, C), nn.Linear(C, C)
        self.len = nn.Linear(1, C, bias=False)
        self.a = nn.Parameter(torch.randn(K, C // K))
        self.leaky = nn.LeakyReLU(0.2)

    def forward(self, cross, roads, length):
        n, (frm, to) = cross.size(0), roads
        tail = self.l(cross).view(n, self.K, -1)
        tip = self.r(cross).view(n, self.K, -1)
        z = self.leaky(tail[frm] + tip[to] + self.len(length).view(-1, *self.a.shape))
        w = per_node_softmax((z * self.a).sum(-1), to, n)
        msg = w.unsqueeze(-1) * tail[to]
        return torch.zeros_like(tail).index_add(0, to, msg).flatten(1)
