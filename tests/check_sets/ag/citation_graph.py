import torch
import torch.nn as nn
import torch.nn.functional as F

# Graph attention without torch_geometric / torch_scatter.
# edge_index is a (2, E) LongTensor: row 0 = source j, row 1 = target i, messages go j -> i.


def segment_softmax(e, index, n):
    """softmax of e (E, H) within the groups given by index (E,), n groups"""
    idx = index[:, None].expand_as(e)
    m = torch.full((n, e.size(1)), float('-inf'), dtype=e.dtype, device=e.device)
    m = m.scatter_reduce(0, idx, e.detach(), 'amax', include_self=True)
    p = (e - m.gather(0, idx)).exp()
    z = torch.zeros(n, e.size(1), dtype=e.dtype, device=e.device).scatter_add(0, idx, p)
    return p / z.gather(0, idx)


def with_self_loops(edge_index, n):
    keep = edge_index[0] != edge_index[1]
    loops = torch.arange(n, device=edge_index.device).repeat(2, 1)
    return torch.cat([edge_index[:, keep], loops], dim=1)


class GATLayer(nn.Module):
    def __init__(self, fin, fout, heads=1, concat=True, p_feat=0.6, p_att=0.6, slope=0.2):
        super().__init__()
        self.h, self.f, self.concat = heads, fout, concat
        self.lin = nn.Linear(fin, heads * fout, bias=False)
        self.a_src = nn.Parameter(torch.empty(heads, fout))
        self.a_dst = nn.Parameter(torch.empty(heads, fout))
        self.bias = nn.Parameter(torch.zeros(heads * fout if concat else fout))
        self.p_feat, self.p_att, self.slope = p_feat, p_att, slope
        for p in (self.lin.weight, self.a_src, self.a_dst):
            nn.init.xavier_uniform_(p)

    def forward(self, x, edge_index, return_alpha=False):
        n = x.size(0)
        src, dst = with_self_loops(edge_index, n)
        x = F.dropout(x, self.p_feat, self.training)
        z = self.lin(x).view(n, self.h, self.f)
        # a^T [z_i || z_j] = a_dst^T z_i + a_src^T z_j
        s = (z * self.a_src).sum(-1)
        t = (z * self.a_dst).sum(-1)
        e = F.leaky_relu(s[src] + t[dst], self.slope)
        alpha = segment_softmax(e, dst, n)
        w = F.dropout(alpha, self.p_att, self.training)
        out = torch.zeros_like(z).index_add(0, dst, w[:, :, None] * z[src])
        out = out.flatten(1) if self.concat else out.mean(1)
        out = out + self.bias
        return (out, (torch.stack([src, dst]), alpha)) if return_alpha else out


class GAT(nn.Module):
    def __init__(self, fin, hidden, classes, heads=8):
        super().__init__()
        self.l1 = GATLayer(fin, hidden, heads)
        self.l2 = GATLayer(hidden * heads, classes, 1, concat=False)

    def forward(self, x, edge_index):
        return self.l2(F.elu(self.l1(x, edge_index)), edge_index)


def train(model, x, edge_index, y, mask, epochs=100, lr=5e-3, wd=5e-4):
    opt = torch.optim.Adam(model.parameters(), lr=lr, weight_decay=wd)
    for _ in range(epochs):
        model.train()
        opt.zero_grad()
        loss = F.cross_entropy(model(x, edge_index)[mask], y[mask])
        loss.backward()
        opt.step()
    return loss.item()


if __name__ == '__main__':
    x, ei = torch.randn(6, 5), torch.tensor([[0, 1, 2, 3, 4, 5, 0], [1, 2, 0, 2, 2, 0, 3]])
    y = torch.tensor([0, 1, 0, 1, 0, 1])
    print(train(GAT(5, 4, 2), x, ei, y, torch.ones(6, dtype=torch.bool), epochs=5))
