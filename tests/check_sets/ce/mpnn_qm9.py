"""Message passing network for QM9 properties (Gilmer et al. 2017), plain PyTorch.

Edge network messages, GRU update, gated sum as readout:

    m_v = sum_{w in N(v)} A(e_vw) h_w
    h_v = GRU(m_v, h_v)
    R   = sum_v sigmoid(i(h_v, x_v)) * j(h_v)

All molecules of a batch are one graph; `graph_id` [n_atoms] tells them apart.
"""
import torch
import torch.nn as nn


class EdgeNetwork(nn.Module):
    """Maps bond features to a d x d matrix and multiplies the neighbour with it."""

    def __init__(self, d, f_bond, hidden=32):
        super().__init__()
        self.d = d
        self.net = nn.Sequential(nn.Linear(f_bond, hidden), nn.ReLU(), nn.Linear(hidden, d * d))

    def forward(self, h, edges, bond):
        src, dst = edges
        A = self.net(bond).view(-1, self.d, self.d)
        m = torch.bmm(A, h[src].unsqueeze(-1)).squeeze(-1)
        return torch.zeros_like(h).index_add(0, dst, m)


class GatedSum(nn.Module):
    def __init__(self, d, f_atom, n_out):
        super().__init__()
        self.i = nn.Linear(d + f_atom, n_out)
        self.j = nn.Linear(d, n_out)

    def forward(self, h, x, graph_id, n_graphs):
        r = torch.sigmoid(self.i(torch.cat([h, x], dim=-1))) * self.j(h)
        return r.new_zeros(n_graphs, r.size(1)).index_add(0, graph_id, r)


class MPNN(nn.Module):
    def __init__(self, f_atom=8, f_bond=4, d=16, steps=3, n_out=12):
        super().__init__()
        self.steps = steps
        self.embed = nn.Linear(f_atom, d)
        self.message = EdgeNetwork(d, f_bond)
        self.update = nn.GRUCell(d, d)
        self.readout = GatedSum(d, f_atom, n_out)

    def forward(self, x, edges, bond, graph_id, n_graphs):
        """x [n, f_atom], edges [2, m] (from, to), bond [m, f_bond] -> [n_graphs, n_out]"""
        h = torch.relu(self.embed(x))
        for _ in range(self.steps):
            h = self.update(self.message(h, edges, bond), h)
        return self.readout(h, x, graph_id, n_graphs)


def collate(molecules):
    """List of (x, edges, bond) -> one big graph."""
    xs, es, bs, gid, shift = [], [], [], [], 0
    for g, (x, e, b) in enumerate(molecules):
        xs.append(x)
        es.append(e + shift)
        bs.append(b)
        gid.append(torch.full((len(x),), g))
        shift += len(x)
    return torch.cat(xs), torch.cat(es, 1), torch.cat(bs), torch.cat(gid), len(molecules)


if __name__ == "__main__":
    ring = torch.tensor([[0, 1, 2, 3, 1, 2, 3, 0], [1, 2, 3, 0, 0, 1, 2, 3]])
    mols = [(torch.randn(4, 8), ring, torch.randn(8, 4)),
            (torch.randn(2, 8), torch.tensor([[0, 1], [1, 0]]), torch.randn(2, 4))]
    print(MPNN()(*collate(mols)).shape)
