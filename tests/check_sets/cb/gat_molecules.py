"""Graph attention (Velickovic et al., 2018) over bond lists, for the solubility (ESOL) baseline.

A batch of molecules is one big disconnected graph, as in PyG: node features
[N, F] and edge_index [2, E] with (source, target) rows. Self loops are added here.
No torch_geometric / torch_scatter: the cluster has neither.
"""
import torch
import torch.nn as nn
import torch.nn.functional as F


def segment_softmax(logits: torch.Tensor, index: torch.Tensor, n: int) -> torch.Tensor:
    """Softmax of logits [E, H] within groups of equal index [E]."""
    idx = index.unsqueeze(-1).expand_as(logits)
    top = torch.full((n, logits.size(1)), float("-inf"), dtype=logits.dtype, device=logits.device)
    top = top.scatter_reduce(0, idx, logits, reduce="amax", include_self=True)
    ex = (logits - top.detach()[index]).exp()
    den = torch.zeros(n, logits.size(1), dtype=logits.dtype, device=logits.device).index_add(0, index, ex)
    return ex / den[index]


class GATConv(nn.Module):
    """alpha_ij = softmax_{i in N(j) u {j}} LeakyReLU(a_src . W x_i + a_dst . W x_j + a_edge . e_ij)"""

    def __init__(self, in_dim, out_dim, heads=4, edge_dim=None, slope=0.2, concat=True):
        super().__init__()
        self.heads, self.out_dim, self.slope, self.concat = heads, out_dim, slope, concat
        self.lin = nn.Linear(in_dim, heads * out_dim, bias=False)
        self.att_src = nn.Parameter(torch.randn(heads, out_dim) * out_dim ** -0.5)
        self.att_dst = nn.Parameter(torch.randn(heads, out_dim) * out_dim ** -0.5)
        self.att_edge = nn.Linear(edge_dim, heads, bias=False) if edge_dim else None
        self.bias = nn.Parameter(torch.zeros(heads * out_dim if concat else out_dim))

    def forward(self, x, edge_index, edge_attr=None):
        N = x.size(0)
        loops = torch.arange(N, device=x.device)
        src = torch.cat([edge_index[0], loops])
        dst = torch.cat([edge_index[1], loops])

        h = self.lin(x).view(N, self.heads, self.out_dim)
        logit = (h * self.att_src).sum(-1)[src] + (h * self.att_dst).sum(-1)[dst]
        if self.att_edge is not None and edge_attr is not None:
            # a self loop has no bond: its edge term is zero
            e = self.att_edge(edge_attr)
            logit = logit + torch.cat([e, e.new_zeros(N, self.heads)])
        alpha = segment_softmax(F.leaky_relu(logit, self.slope), dst, N)

        msg = alpha.unsqueeze(-1) * h[src]
        out = torch.zeros_like(h).index_add(0, dst, msg)
        out = out.flatten(1) if self.concat else out.mean(1)
        return out + self.bias


class ESOLNet(nn.Module):
    def __init__(self, atom_dim, bond_dim, hidden=16, heads=4):
        super().__init__()
        self.g1 = GATConv(atom_dim, hidden, heads, bond_dim)
        self.g2 = GATConv(hidden * heads, hidden, heads, bond_dim, concat=False)
        self.head = nn.Linear(hidden, 1)

    def forward(self, x, edge_index, edge_attr, batch, n_mols):
        x = F.elu(self.g1(x, edge_index, edge_attr))
        x = F.elu(self.g2(x, edge_index, edge_attr))
        total = x.new_zeros(n_mols, x.size(1)).index_add(0, batch, x)
        count = torch.bincount(batch, minlength=n_mols).clamp(min=1).unsqueeze(-1)
        return self.head(total / count).squeeze(-1)
