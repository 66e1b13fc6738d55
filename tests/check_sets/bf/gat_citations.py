"""GAT on a small citation graph (dense adjacency), PyTorch homework 4.

Adjacency convention of the course: adj[i, j] = 1 when node i RECEIVES from node j.
Self loops are added in the layer, so that every node has at least one neighbour.
"""
import argparse

import torch
import torch.nn as nn
import torch.nn.functional as F


class GraphAttentionLayer(nn.Module):
    def __init__(self, f_in, f_out, n_heads=2, alpha=0.2, concat=True):
        super().__init__()
        self.n_heads, self.f_out, self.concat = n_heads, f_out, concat
        self.W = nn.Parameter(torch.empty(n_heads, f_in, f_out))
        self.a_dst = nn.Parameter(torch.empty(n_heads, f_out))
        self.a_src = nn.Parameter(torch.empty(n_heads, f_out))
        self.leaky = nn.LeakyReLU(alpha)
        for p in self.parameters():
            nn.init.xavier_uniform_(p)

    def forward(self, x, adj):
        # x: N x f_in, adj: N x N
        n = x.size(0)
        h = torch.einsum("nf,hfo->hno", x, self.W)
        e_i = (h * self.a_dst[:, None]).sum(-1)            # H x N, receiver part
        e_j = (h * self.a_src[:, None]).sum(-1)            # H x N, sender part
        e = self.leaky(e_i.unsqueeze(2) + e_j.unsqueeze(1))  # H x N x N
        adj = adj.bool() | torch.eye(n, dtype=torch.bool, device=adj.device)
        e = e.masked_fill(~adj, float("-inf"))
        att = F.softmax(e, dim=2)
        out = att @ h                                      # H x N x f_out
        if self.concat:
            return F.elu(out.permute(1, 0, 2).reshape(n, -1))
        return out.mean(0)


class GAT(nn.Module):
    def __init__(self, n_feat, n_class, hid=8, heads=4):
        super().__init__()
        self.l1 = GraphAttentionLayer(n_feat, hid, heads)
        self.l2 = GraphAttentionLayer(hid * heads, n_class, 1, concat=False)

    def forward(self, x, adj):
        return F.log_softmax(self.l2(self.l1(x, adj), adj), dim=-1)


def main():
    p = argparse.ArgumentParser()
    p.add_argument("--nodes", type=int, default=20)
    p.add_argument("--steps", type=int, default=5)
    a = p.parse_args()
    x, adj = torch.randn(a.nodes, 16), torch.rand(a.nodes, a.nodes) < 0.2
    y = torch.randint(0, 3, (a.nodes,))
    net = GAT(16, 3)
    opt = torch.optim.Adam(net.parameters(), lr=5e-3)
    for i in range(a.steps):
        opt.zero_grad()
        loss = F.nll_loss(net(x, adj), y)
        loss.backward()
        opt.step()
        print(i, loss.item())


if __name__ == "__main__":
    main()
