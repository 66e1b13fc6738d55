import argparse
import torch
from torch import nn
import torch.nn.functional as F

# Short-term speed forecast on METR-style sensor graphs.
# edge_index[0] = upstream sensor (source), edge_index[1] = downstream sensor
# (destination). Messages flow source -> destination; the coefficients of all
# edges that ARRIVE at one sensor sum to one.


def segment_softmax(e, index, n):
    """softmax of e (E, H) over the edges with equal index; no torch_scatter needed"""
    idx = index.unsqueeze(-1).expand_as(e)
    top = e.new_full((n, e.size(1)), float("-inf"))
    top = top.scatter_reduce(0, idx, e, reduce="amax", include_self=True)
    ex = (e - top.gather(0, idx)).exp()
    tot = e.new_zeros(n, e.size(1)).scatter_add(0, idx, ex)
    return ex / tot.gather(0, idx)


class RoadGAT(nn.Module):
    """GATv2 layer (Brody et al.): e_ij = a^T LeakyReLU(W_s x_j + W_d x_i + W_e f_ij).

    x:          (N, in_dim)
    edge_index: (2, E) long
    edge_attr:  (E, edge_dim) -- length in km, number of lanes, free-flow speed
    returns     (N, heads * out_dim); a sensor without incoming edge gets the
                residual only.
    """

    def __init__(self, in_dim, out_dim, heads=4, edge_dim=3, slope=0.2, drop=0.0):
        super().__init__()
        self.heads, self.out_dim, self.slope, self.drop = heads, out_dim, slope, drop
        self.lin_src = nn.Linear(in_dim, heads * out_dim)
        self.lin_dst = nn.Linear(in_dim, heads * out_dim)
        self.lin_edge = nn.Linear(edge_dim, heads * out_dim, bias=False)
        self.att = nn.Parameter(torch.empty(1, heads, out_dim))
        self.res = nn.Linear(in_dim, heads * out_dim, bias=False)
        nn.init.xavier_uniform_(self.att)

    def forward(self, x, edge_index, edge_attr, return_alpha=False):
        n = x.size(0)
        src, dst = edge_index
        hs = self.lin_src(x).view(n, self.heads, self.out_dim)
        hd = self.lin_dst(x).view(n, self.heads, self.out_dim)
        he = self.lin_edge(edge_attr).view(-1, self.heads, self.out_dim)

        z = F.leaky_relu(hs[src] + hd[dst] + he, self.slope)
        e = (z * self.att).sum(-1)
        alpha = segment_softmax(e, dst, n)
        a = F.dropout(alpha, self.drop, training=self.training)

        msg = hs[src] * a.unsqueeze(-1)
        out = torch.zeros_like(hd).index_add_(0, dst, msg)
        out = out.flatten(1) + self.res(x)
        return (out, alpha) if return_alpha else out


class SpeedForecaster(nn.Module):
    def __init__(self, horizon=12, hidden=16, heads=4):
        super().__init__()
        self.gru = nn.GRU(2, hidden * heads, batch_first=True)
        self.g1 = RoadGAT(hidden * heads, hidden, heads, drop=0.1)
        self.g2 = RoadGAT(hidden * heads, hidden, heads, drop=0.1)
        self.out = nn.Linear(hidden * heads, horizon)

    def forward(self, hist, edge_index, edge_attr):
        _, h = self.gru(hist)
        h = F.elu(self.g1(h[-1], edge_index, edge_attr))
        h = F.elu(self.g2(h, edge_index, edge_attr))
        return self.out(h)


def masked_mae(pred, true, null=0.0):
    keep = (true != null).float()
    return ((pred - true).abs() * keep).sum() / keep.sum().clamp(min=1)


if __name__ == "__main__":
    ap = argparse.ArgumentParser()
    ap.add_argument("--sensors", type=int, default=20)
    n = ap.parse_args().sensors
    ei = torch.randint(0, n, (2, 5 * n))
    m = SpeedForecaster()
    y = m(torch.randn(n, 12, 2), ei, torch.rand(5 * n, 3))
    print(y.shape, masked_mae(y, torch.rand_like(y)).item())
