# GATv2 ("How attentive are graph attention networks?") w/o pytorch-geometric.
# Used for the BBBP baseline. edge_index[0] = source j, edge_index[1] = target i,
# messages flow j -> i and are normalised over the in-neighbourhood of i.
import torch
import torch.nn as nn
import torch.nn.functional as F


def add_self_loops(edge_index, n):
    loop = torch.arange(n, device=edge_index.device)
    keep = edge_index[0] != edge_index[1]
    return torch.cat([edge_index[:, keep], loop.expand(2, n)], dim=1)


def segment_softmax(src, index, n):
    """softmax of src [E, H] inside the groups given by index [E]"""
    idx = index.view(-1, 1).expand_as(src)
    mx = torch.full((n, src.size(1)), float("-inf"), dtype=src.dtype, device=src.device)
    mx = mx.scatter_reduce(0, idx, src.detach(), reduce="amax", include_self=True)
    ex = (src - mx[index]).exp()
    den = torch.zeros(n, src.size(1), dtype=src.dtype, device=src.device).index_add(0, index, ex)
    return ex / den[index].clamp(min=1e-16)


class GATv2Layer(nn.Module):
    def __init__(self, in_dim, out_dim, heads=4, slope=0.2, drop=0.0, concat=True):
        super().__init__()
        self.h, self.c, self.slope, self.drop, self.concat = heads, out_dim, slope, drop, concat
        self.lin_l = nn.Linear(in_dim, heads * out_dim)
        self.lin_r = nn.Linear(in_dim, heads * out_dim)
        self.att = nn.Parameter(torch.empty(1, heads, out_dim))
        self.bias = nn.Parameter(torch.zeros(heads * out_dim if concat else out_dim))
        nn.init.xavier_uniform_(self.att)

    def forward(self, x, edge_index, return_alpha=False):
        N = x.size(0)
        edge_index = add_self_loops(edge_index, N)
        j, i = edge_index
        x_l = self.lin_l(x).view(N, self.h, self.c)
        x_r = self.lin_r(x).view(N, self.h, self.c)
        e = (F.leaky_relu(x_l[j] + x_r[i], self.slope) * self.att).sum(-1)
        alpha = segment_softmax(e, i, N)
        msg = x_l[j] * F.dropout(alpha, self.drop, self.training).unsqueeze(-1)
        out = torch.zeros(N, self.h, self.c, dtype=x.dtype, device=x.device).index_add(0, i, msg)
        out = out.flatten(1) if self.concat else out.mean(1)
        out = out + self.bias
        return (out, alpha) if return_alpha else out


class MolNet(nn.Module):
    def __init__(self, n_atom_feat=9, hid=32, heads=4, n_tasks=1):
        super().__init__()
        self.conv1 = GATv2Layer(n_atom_feat, hid, heads, drop=0.1)
        self.conv2 = GATv2Layer(hid * heads, hid, heads, drop=0.1, concat=False)
        self.head = nn.Linear(hid, n_tasks)

    def forward(self, x, edge_index, batch):
        x = F.elu(self.conv1(x, edge_index))
        x = F.elu(self.conv2(x, edge_index))
        n_graph = int(batch.max()) + 1
        s = torch.zeros(n_graph, x.size(1), dtype=x.dtype, device=x.device).index_add(0, batch, x)
        cnt = torch.bincount(batch, minlength=n_graph).clamp(min=1).unsqueeze(1)
        return self.head(s / cnt)
