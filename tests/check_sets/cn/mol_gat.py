"""Graph attention layer for molecules, no PyG needed.

GAT (Velickovic et al.): for a bond j -> i

    e_ij   = LeakyReLU(a_src . W h_j  +  a_dst . W h_i)
    alpha  = softmax over all j that point to i (atom i itself included)
    h'_i   = sum_j alpha_ij W h_j

Heads are concatenated.  edge_index is [2, E] with row 0 = source j, row 1 =
target i; bonds must be listed in both directions by the caller.  Self loops are
added here (existing ones are dropped first, so they never count twice).
"""
import torch
from torch import nn
import torch.nn.functional as F


def softmax_per_target(e, target, n):
    """e [E, H]; normalises over the edges that share a target."""
    idx = target[:, None].expand_as(e)
    top = e.new_full((n, e.shape[1]), float("-inf"))
    top = top.scatter_reduce(0, idx, e, reduce="amax")
    w = (e - top[target]).exp()
    den = e.new_zeros(n, e.shape[1]).scatter_add(0, idx, w)
    return w / den[target]


class AtomAttention(nn.Module):
    def __init__(self, in_dim=16, head_dim=8, heads=4, slope=0.2, dropout=0.1):
        super().__init__()
        self.heads, self.head_dim, self.slope = heads, head_dim, slope
        self.lin = nn.Linear(in_dim, heads * head_dim, bias=False)
        self.a_src = nn.Parameter(torch.empty(heads, head_dim))
        self.a_dst = nn.Parameter(torch.empty(heads, head_dim))
        self.bias = nn.Parameter(torch.zeros(heads * head_dim))
        self.drop = nn.Dropout(dropout)
        nn.init.xavier_uniform_(self.a_src)
        nn.init.xavier_uniform_(self.a_dst)

    def forward(self, h, edge_index):
        """h [N, in_dim], edge_index long [2, E]  ->  [N, heads * head_dim]"""
        n = h.shape[0]
        src, dst = edge_index
        real = src != dst
        loops = torch.arange(n, device=h.device)
        src = torch.cat([src[real], loops])
        dst = torch.cat([dst[real], loops])

        z = self.lin(h).view(n, self.heads, self.head_dim)
        s_src = (z * self.a_src).sum(-1)              # [N, H]
        s_dst = (z * self.a_dst).sum(-1)
        e = F.leaky_relu(s_src[src] + s_dst[dst], self.slope)
        alpha = self.drop(softmax_per_target(e, dst, n))

        msg = z[src] * alpha[..., None]               # [E, H, d]
        out = torch.zeros_like(z).index_add(0, dst, msg)
        return out.flatten(1) + self.bias


class MoleculeNet(nn.Module):
    """Atoms -> one number per molecule.  batch [N] says which molecule an atom is in."""

    def __init__(self, in_dim=16):
        super().__init__()
        self.l1 = AtomAttention(in_dim)
        self.l2 = AtomAttention(32)
        self.head = nn.Linear(32, 1)

    def forward(self, h, edge_index, batch):
        h = F.elu(self.l1(h, edge_index))
        h = F.elu(self.l2(h, edge_index))
        m = int(batch.max()) + 1
        pooled = h.new_zeros(m, h.shape[1]).index_add(0, batch, h)
        return self.head(pooled).squeeze(-1)
