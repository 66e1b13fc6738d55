"""Graph attention network on citation graphs, plain PyTorch (no torch_geometric).

edge_index [2, E]: row 0 the source node j, row 1 the target node i.  A target node weighs
the messages that come in:

    e_ij = LeakyReLU(a_src . W x_j + a_dst . W x_i)        alpha_ij = softmax over j in N(i)
"""
import argparse

import torch
import torch.nn as nn
import torch.nn.functional as F


def add_self_loops(edge_index, n):
    keep = edge_index[0] != edge_index[1]
    loops = torch.arange(n, device=edge_index.device)
    return torch.cat([edge_index[:, keep], torch.stack([loops, loops])], dim=1)


def segment_softmax(e, index, n):
    """Softmax of e [E, H] over all rows with the same index; n groups."""
    idx = index[:, None].expand_as(e)
    top = torch.full((n, e.shape[1]), float("-inf"), dtype=e.dtype, device=e.device)
    top = top.scatter_reduce(0, idx, e.detach(), reduce="amax", include_self=True)
    ex = torch.exp(e - top.gather(0, idx))
    z = torch.zeros(n, e.shape[1], dtype=e.dtype, device=e.device).scatter_add(0, idx, ex)
    return ex / z.gather(0, idx)


class GATLayer(nn.Module):
    def __init__(self, n_in, n_out, heads=8, concat=True, slope=0.2, p_feat=0.0, p_att=0.0):
        super().__init__()
        self.heads, self.n_out, self.concat, self.slope = heads, n_out, concat, slope
        self.W = nn.Linear(n_in, heads * n_out, bias=False)
        self.a_src = nn.Parameter(torch.empty(heads, n_out))
        self.a_dst = nn.Parameter(torch.empty(heads, n_out))
        self.bias = nn.Parameter(torch.zeros(heads * n_out if concat else n_out))
        self.drop_feat, self.drop_att = nn.Dropout(p_feat), nn.Dropout(p_att)
        for w in (self.W.weight, self.a_src, self.a_dst):
            nn.init.xavier_uniform_(w)

    def forward(self, x, edge_index, return_alpha=False):
        n = x.shape[0]
        src, dst = edge_index
        h = self.W(self.drop_feat(x)).view(n, self.heads, self.n_out)
        s = (h * self.a_src).sum(-1)                              # [n, heads]
        t = (h * self.a_dst).sum(-1)
        e = F.leaky_relu(s[src] + t[dst], self.slope)             # [E, heads]
        alpha = segment_softmax(e, dst, n)
        msg = h[src] * self.drop_att(alpha)[..., None]
        out = torch.zeros_like(h).index_add(0, dst, msg)
        out = out.flatten(1) if self.concat else out.mean(1)
        out = out + self.bias
        return (out, alpha) if return_alpha else out


class GAT(nn.Module):
    def __init__(self, n_feat, n_class, hidden=8, heads=8, p=0.6):
        super().__init__()
        self.l1 = GATLayer(n_feat, hidden, heads, True, p_feat=p, p_att=p)
        self.l2 = GATLayer(hidden * heads, n_class, 1, False, p_feat=p, p_att=p)

    def forward(self, x, edge_index):
        edge_index = add_self_loops(edge_index, x.shape[0])
        return self.l2(F.elu(self.l1(x, edge_index)), edge_index)


def toy_graph(n=60, classes=3, seed=0):
    g = torch.Generator().manual_seed(seed)
    y = torch.randint(classes, (n,), generator=g)
    x = F.one_hot(y, classes).float() + 1.5 * torch.randn(n, classes, generator=g)
    p = torch.where(y[:, None] == y[None], 0.15, 0.01)
    edge_index = (torch.rand(n, n, generator=g) < p).nonzero().T
    return x, edge_index, y


def train(args):
    x, ei, y = toy_graph(seed=args.seed)
    net = GAT(x.shape[1], int(y.max()) + 1)
    opt = torch.optim.Adam(net.parameters(), lr=5e-3, weight_decay=5e-4)
    for epoch in range(args.epochs):
        net.train()
        opt.zero_grad()
        F.cross_entropy(net(x, ei)[:30], y[:30]).backward()
        opt.step()
    net.eval()
    with torch.no_grad():
        return (net(x, ei).argmax(1) == y)[30:].float().mean().item()


if __name__ == "__main__":
    ap = argparse.ArgumentParser()
    ap.add_argument("--epochs", type=int, default=60)
    ap.add_argument("--seed", type=int, default=0)
    torch.manual_seed(0)
    print("accuracy", train(ap.parse_args()))
