"""GATv2 (Brody et al. 2022) for paper classification in citation graphs, no PyG needed.

Edges are a [2, E] long tensor; edge_index[0] is the citing / sending node, edge_index[1]
the receiving one. A node averages over its incoming edges (plus a self loop).
"""
import torch
import torch.nn as nn
import torch.nn.functional as F


def add_self_loops(edge_index, n):
    keep = edge_index[0] != edge_index[1]
    loop = torch.arange(n, device=edge_index.device)
    return torch.cat([edge_index[:, keep], torch.stack([loop, loop])], dim=1)


def group_softmax(score, group, n):
    """softmax of score [E, H] among the entries with equal group [E]."""
    idx = group.unsqueeze(-1).expand_as(score)
    top = torch.full((n, score.shape[1]), float("-inf"), dtype=score.dtype, device=score.device)
    top = top.scatter_reduce(0, idx, score.detach(), reduce="amax")
    e = torch.exp(score - top[group])
    z = torch.zeros(n, score.shape[1], dtype=score.dtype, device=score.device)
    z = z.index_add(0, group, e)
    return e / z[group]


class GATv2Conv(nn.Module):
    """e_ij = a . LeakyReLU(W_r x_i + W_l x_j);  alpha_ij = softmax over j -> i;
    out_i = sum_j alpha_ij W_l x_j, heads concatenated or averaged."""

    def __init__(self, d_in, d_out, heads=8, concat=True, slope=0.2, attn_drop=0.0):
        super().__init__()
        self.d_out, self.heads, self.concat = d_out, heads, concat
        self.slope, self.attn_drop = slope, attn_drop
        self.lin_l = nn.Linear(d_in, heads * d_out)
        self.lin_r = nn.Linear(d_in, heads * d_out)
        self.att = nn.Parameter(torch.empty(heads, d_out))
        self.bias = nn.Parameter(torch.zeros(heads * d_out if concat else d_out))
        nn.init.xavier_uniform_(self.lin_l.weight)
        nn.init.xavier_uniform_(self.lin_r.weight)
        nn.init.xavier_uniform_(self.att)

    def forward(self, x, edge_index, return_attention=False):
        n = x.shape[0]
        edge_index = add_self_loops(edge_index, n)
        src, dst = edge_index
        left = self.lin_l(x).view(n, self.heads, self.d_out)
        right = self.lin_r(x).view(n, self.heads, self.d_out)

        e = F.leaky_relu(right[dst] + left[src], self.slope)
        alpha = group_softmax((e * self.att).sum(-1), dst, n)                 # [E, H]
        used = F.dropout(alpha, self.attn_drop, self.training)

        out = x.new_zeros(n, self.heads, self.d_out)
        out = out.index_add(0, dst, used.unsqueeze(-1) * left[src])
        out = out.flatten(1) if self.concat else out.mean(1)
        out = out + self.bias
        return (out, edge_index, alpha) if return_attention else out


class PaperClassifier(nn.Module):
    def __init__(self, d_in, n_class, hidden=8, heads=8, drop=0.6):
        super().__init__()
        self.drop = drop
        self.conv1 = GATv2Conv(d_in, hidden, heads, attn_drop=drop)
        self.conv2 = GATv2Conv(hidden * heads, n_class, 1, concat=False, attn_drop=drop)

    def forward(self, x, edge_index):
        x = F.dropout(x, self.drop, self.training)
        x = F.elu(self.conv1(x, edge_index))
        x = F.dropout(x, self.drop, self.training)
        return self.conv2(x, edge_index)


def accuracy(model, x, edge_index, y, mask):
    model.eval()
    with torch.no_grad():
        pred = model(x, edge_index).argmax(1)
    return (pred[mask] == y[mask]).float().mean().item()


def fit(model, x, edge_index, y, train, val, epochs=200, patience=30):
    opt = torch.optim.Adam(model.parameters(), lr=5e-3, weight_decay=5e-4)
    best, wait, state = 0.0, 0, None
    for _ in range(epochs):
        model.train()
        opt.zero_grad()
        F.cross_entropy(model(x, edge_index)[train], y[train]).backward()
        opt.step()
        acc = accuracy(model, x, edge_index, y, val)
        if acc > best:
            best, wait = acc, 0
            state = {k: v.clone() for k, v in model.state_dict().items()}
        else:
            wait += 1
            if wait == patience:
                break
    if state:
        model.load_state_dict(state)
    return best
