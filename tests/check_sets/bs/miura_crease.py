"""Mountain or valley?  Crease assignment for flat-foldable patterns.

Vertices are the nodes and creases the (directed, both ways) edges of a graph.  The layer is
GATv2: the score is a^T LeakyReLU(W_l x_src + W_r x_dst + W_e e), normalised over all edges
that arrive at the same vertex.  A vertex without creases receives only the bias.
"""
import torch
from torch import nn


def arrivals_softmax(score, dst, n):
    """Softmax of ``score`` [E, H] within groups of equal ``dst`` [E] (``n`` groups)."""
    idx = dst[:, None].expand_as(score)
    peak = score.new_full((n, score.size(1)), float("-inf"))
    peak = peak.scatter_reduce(0, idx, score.detach(), "amax", include_self=True)
    e = (score - peak[dst]).exp()
    total = score.new_zeros(n, score.size(1)).index_add_(0, dst, e)
    return e / total[dst]


class CreaseGAT(nn.Module):
    def __init__(self, d_in, d_head, heads, d_edge, *, slope=0.2, concat=True):
        super().__init__()
        self.heads, self.d_head, self.concat = heads, d_head, concat
        self.left = nn.Linear(d_in, heads * d_head)
        self.right = nn.Linear(d_in, heads * d_head)
        self.edge = nn.Linear(d_edge, heads * d_head, bias=False)
        self.a = nn.Parameter(torch.empty(heads, d_head))
        self.bias = nn.Parameter(torch.zeros(heads * d_head if concat else d_head))
        self.act = nn.LeakyReLU(slope)
        nn.init.xavier_uniform_(self.a)

    def forward(self, x, edges, attr):
        """x [V, d_in]; edges [2, E] rows (src, dst); attr [E, d_edge]."""
        src, dst = edges
        V = x.size(0)
        from_ = self.left(x).view(V, self.heads, self.d_head)
        to = self.right(x).view(V, self.heads, self.d_head)
        pair = from_[src] + to[dst] + self.edge(attr).view(-1, self.heads, self.d_head)
        score = (self.act(pair) * self.a).sum(-1)                  # [E, H]
        alpha = arrivals_softmax(score, dst, V)
        msg = alpha[..., None] * from_[src]
        out = x.new_zeros(V, self.heads, self.d_head).index_add_(0, dst, msg)
        out = out.flatten(1) if self.concat else out.mean(1)
        return out + self.bias


class FoldAssigner(nn.Module):
    """Logit > 0: mountain.  The two directions of one crease get the same logit."""

    def __init__(self, d=16, heads=4, layers=3):
        super().__init__()
        self.inp = nn.Linear(3, d)
        self.layers = nn.ModuleList(CreaseGAT(d, d // heads, heads, 2) for _ in range(layers))
        self.head = nn.Sequential(nn.Linear(2 * d + 2, d), nn.ELU(), nn.Linear(d, 1))

    def forward(self, xy, edges):
        src, dst = edges
        vec = xy[dst] - xy[src]
        attr = torch.stack([vec.norm(dim=-1), torch.atan2(vec[:, 1], vec[:, 0]).cos()], -1)
        degree = torch.zeros(len(xy)).index_add_(0, dst, torch.ones(len(dst)))
        h = self.inp(torch.cat([xy, degree[:, None]], -1))
        for layer in self.layers:
            h = h + nn.functional.elu(layer(h, edges, attr))
        both = torch.cat([h[src] + h[dst], (h[src] - h[dst]).abs(), attr[:, :1], attr[:, 1:].abs()], -1)
        return self.head(both).squeeze(-1)


def miura(rows, cols, lean=0.3):
    """Vertices and creases of a Miura-ori sheet."""
    xy, edges = [], []
    for r in range(rows):
        for c in range(cols):
            xy.append((c, r + lean * (c % 2)))
            i = r * cols + c
            if c + 1 < cols:
                edges += [(i, i + 1), (i + 1, i)]
            if r + 1 < rows:
                edges += [(i, i + cols), (i + cols, i)]
    return torch.tensor(xy, dtype=torch.float32), torch.tensor(edges).T


if __name__ == "__main__":
    xy, edges = miura(4, 5)
    print(FoldAssigner()(xy, edges).shape)
