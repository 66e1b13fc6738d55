"""Message passing for solubility (ESOL) without torch_geometric: GATv2 on an edge list."""
import torch
from torch import nn

ATOMS = ["C", "N", "O", "S", "F", "Cl", "Br", "I", "P", "other"]
BONDS = ["SINGLE", "DOUBLE", "TRIPLE", "AROMATIC"]


def segment_softmax(score, index, num_segments):
    """softmax of score (E, H) within the groups given by index (E,)"""
    idx = index[:, None].expand_as(score)
    top = score.new_full((num_segments, score.shape[1]), float("-inf"))
    top = top.scatter_reduce(0, idx, score, reduce="amax", include_self=True)
    ex = (score - top[index]).exp()
    den = score.new_zeros(num_segments, score.shape[1]).index_add(0, index, ex)
    return ex / den[index]


class GATv2Layer(nn.Module):
    """h_i' = || _h  sum_{j -> i} alpha_ij W_src h_j,

    alpha_ij = softmax_j a^T LeakyReLU(W_src h_j + W_dst h_i + W_edge e_ij)      (Brody et al. 2022)

    edge_index (2, E): row 0 the senders j, row 1 the receivers i.  An atom without incoming
    bonds gets zeros (+ bias).
    """

    def __init__(self, dim_in, dim_out, dim_edge, heads=4, slope=0.2, p=0.0):
        super().__init__()
        self.heads, self.dim_out = heads, dim_out
        self.w_src = nn.Linear(dim_in, heads * dim_out, bias=False)
        self.w_dst = nn.Linear(dim_in, heads * dim_out, bias=False)
        self.w_edge = nn.Linear(dim_edge, heads * dim_out, bias=False)
        self.a = nn.Parameter(torch.empty(heads, dim_out))
        nn.init.xavier_normal_(self.a)
        self.bias = nn.Parameter(torch.zeros(heads * dim_out))
        self.act = nn.LeakyReLU(slope)
        self.drop = nn.Dropout(p)

    def forward(self, h, edge_index, edge_attr):
        n = h.shape[0]
        send, recv = edge_index
        x_src = self.w_src(h).view(n, self.heads, self.dim_out)
        x_dst = self.w_dst(h).view(n, self.heads, self.dim_out)
        e = self.w_edge(edge_attr).view(-1, self.heads, self.dim_out)

        z = self.act(x_src[send] + x_dst[recv] + e)
        score = (z * self.a).sum(-1)                             # (E, H)
        alpha = self.drop(segment_softmax(score, recv, n))

        msg = alpha.unsqueeze(-1) * x_src[send]
        out = h.new_zeros(n, self.heads, self.dim_out).index_add(0, recv, msg)
        return out.flatten(1) + self.bias


class SolubilityNet(nn.Module):
    def __init__(self, dim=16, heads=4, depth=3):
        super().__init__()
        self.atom = nn.Embedding(len(ATOMS), dim * heads)
        self.convs = nn.ModuleList(GATv2Layer(dim * heads, dim, len(BONDS), heads) for _ in range(depth))
        self.norms = nn.ModuleList(nn.LayerNorm(dim * heads) for _ in range(depth))
        self.readout = nn.Sequential(nn.Linear(dim * heads, 32), nn.ReLU(), nn.Linear(32, 1))

    def forward(self, atoms, edge_index, bonds, graph_id):
        h = self.atom(atoms)
        e = nn.functional.one_hot(bonds, len(BONDS)).to(h.dtype)
        for conv, norm in zip(self.convs, self.norms):
            h = norm(h + torch.relu(conv(h, edge_index, e)))
        n_graphs = int(graph_id.max()) + 1
        pooled = h.new_zeros(n_graphs, h.shape[1]).index_add(0, graph_id, h)
        return self.readout(pooled).squeeze(-1)


if __name__ == "__main__":
    # ethanol and methanol
    atoms = torch.tensor([0, 0, 2, 0, 2])
    edges = torch.tensor([[0, 1, 1, 2, 3, 4], [1, 0, 2, 1, 4, 3]])
    net = SolubilityNet()
    print(net(atoms, edges, torch.zeros(6, dtype=torch.long), torch.tensor([0, 0, 0, 1, 1])))
