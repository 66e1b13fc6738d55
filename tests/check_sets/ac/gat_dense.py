"""Graph Attention Network (Velickovic et al., 2018) for small graphs, dense adjacency.

adj[i, j] = 1 when node i receives messages from node j. Self loops have to be in adj already.
"""
import torch
import torch.nn as nn
import torch.nn.functional as F


class GATHead(nn.Module):
    def __init__(self, nfeat, nhid, dropout=0.6, alpha=0.2, concat=True):
        super(GATHead, self).__init__()
        self.dropout = dropout
        self.concat = concat
        self.W = nn.Parameter(torch.empty(nfeat, nhid))
        self.a_src = nn.Parameter(torch.empty(nhid, 1))
        self.a_dst = nn.Parameter(torch.empty(nhid, 1))
        for p in (self.W, self.a_src, self.a_dst):
            nn.init.xavier_uniform_(p, gain=1.414)
        self.leakyrelu = nn.LeakyReLU(alpha)

    def forward(self, h, adj):
        Wh = h @ self.W                                   # N x F'
        f1 = Wh @ self.a_src                              # N x 1
        f2 = Wh @ self.a_dst                              # N x 1
        e = self.leakyrelu(f1 + f2.T)                     # e_ij, N x N

        # masked attention: only j in the neighbourhood of i takes part
        e = e * adj
        att = F.softmax(e, dim=1)
        att = F.dropout(att, self.dropout, training=self.training)
        out = att @ Wh
        return F.elu(out) if self.concat else out


class GAT(nn.Module):
    def __init__(self, nfeat, nhid, nclass, dropout=0.6, alpha=0.2, nheads=8):
        super(GAT, self).__init__()
        self.dropout = dropout
        self.heads = nn.ModuleList(
            [GATHead(nfeat, nhid, dropout, alpha, concat=True) for _ in range(nheads)])
        self.out_att = GATHead(nhid * nheads, nclass, dropout, alpha, concat=False)

    def forward(self, x, adj):
        x = F.dropout(x, self.dropout, training=self.training)
        x = torch.cat([att(x, adj) for att in self.heads], dim=1)
        x = F.dropout(x, self.dropout, training=self.training)
        x = F.elu(self.out_att(x, adj))
        return F.log_softmax(x, dim=1)
