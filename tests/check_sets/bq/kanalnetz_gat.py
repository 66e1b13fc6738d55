"""Graph attention (GATv2) on a sewer network: manholes are nodes, pipes are edges.

Water flows downhill, so the edge list is directed: ``pipe[0]`` = upstream
manhole, ``pipe[1]`` = downstream manhole. A manhole gathers from everything
that flows into it and from itself.
"""
import torch
from torch import nn


def manning_velocity(slope, diameter, n=0.013):
    """full-bore velocity in m/s"""
    return (diameter / 4.0) ** (2.0 / 3.0) * slope.clamp_min(1e-6).sqrt() / n


def segment_softmax(e, index, size):
    """softmax of e [E, H] within groups of equal index [E]"""
    idx = index[:, None].expand_as(e)
    top = torch.full((size, e.size(1)), float("-inf"), dtype=e.dtype, device=e.device)
    top = top.scatter_reduce(0, idx, e, reduce="amax", include_self=True)
    e = (e - top[index]).exp()
    total = torch.zeros(size, e.size(1), dtype=e.dtype, device=e.device).scatter_add(0, idx, e)
    return e / total[index]


class PipeAttention(nn.Module):
    """score = a_h . LeakyReLU(W_u x_up + W_d x_down + W_e pipe); no 1/sqrt(d) (Brody et al.)."""

    def __init__(self, nodes_in, pipe_in, heads=4, out=8, slope=0.2):
        super().__init__()
        self.heads, self.out = heads, out
        self.up = nn.Linear(nodes_in, heads * out)
        self.down = nn.Linear(nodes_in, heads * out)
        self.pipe = nn.Linear(pipe_in, heads * out, bias=False)
        self.a = nn.Parameter(torch.empty(heads, out))
        nn.init.xavier_uniform_(self.a)
        self.act = nn.LeakyReLU(slope)

    def forward(self, x, pipe, attr):
        """x [N, nodes_in], pipe [2, E] int64, attr [E, pipe_in] -> [N, heads*out]"""
        n = x.size(0)
        own = torch.arange(n, device=x.device)
        src = torch.cat([pipe[0], own])
        dst = torch.cat([pipe[1], own])
        attr = torch.cat([attr, attr.new_zeros(n, attr.size(1))])
        view = lambda t: t.view(-1, self.heads, self.out)
        u, d = view(self.up(x)), view(self.down(x))
        hidden = self.act(u[src] + d[dst] + view(self.pipe(attr)))
        e = (hidden * self.a).sum(-1)
        alpha = segment_softmax(e, dst, n)
        msg = alpha.unsqueeze(-1) * u[src]
        out = torch.zeros_like(u).index_add(0, dst, msg)
        return out.flatten(1)


class SurchargeModel(nn.Module):
    """probability that a manhole overflows in the design storm"""

    def __init__(self, nodes_in=5, pipe_in=3, layers=3):
        super().__init__()
        self.inp = nn.Linear(nodes_in, 32)
        self.layers = nn.ModuleList(PipeAttention(32, pipe_in) for _ in range(layers))
        self.out = nn.Linear(32, 1)

    def forward(self, x, pipe, attr):
        h = self.inp(x)
        for layer in self.layers:
            h = h + torch.relu(layer(h, pipe, attr))
        return torch.sigmoid(self.out(h)).squeeze(-1)


def features_of(length, diameter, drop):
    slope = drop / length
    return torch.stack([length / 100.0, diameter, manning_velocity(slope, diameter)], -1)


def demo():
    pipe = torch.tensor([[0, 1, 2, 3], [2, 2, 4, 4]])
    attr = features_of(torch.tensor([40.0, 55.0, 60.0, 22.0]), torch.full((4,), 0.3), torch.full((4,), 0.4))
    print(SurchargeModel()(torch.randn(5, 5), pipe, attr))


if __name__ == "__main__":
    demo()
