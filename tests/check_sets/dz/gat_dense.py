"""Graph attention network (Velickovic et al. 2018) on a dense adjacency matrix.

    h    (N, F)  node features
    adj  (N, N)  adj[i, j] > 0: node i listens to node j; self-loops are in adj already
    out  (N, classes) log-probabilities

Per head: e[i, j] = LeakyReLU( a_l . W h_i + a_r . W h_j ); the weights of node i are the softmax of
e[i, :] over the nodes it listens to, every other node has weight 0.
"""
import torch
import torch.nn as nn
import torch.nn.functional as F


class GraphAttentionHead(nn.Module):
    def __init__(self, n_in, n_out, p=0.6, slope=0.2, concat=True):
        super().__init__()
        self.p, self.concat = p, concat
        self.W = nn.Parameter(torch.empty(n_in, n_out))
        self.a = nn.Parameter(torch.empty(2 * n_out, 1))
        nn.init.xavier_uniform_(self.W, gain=1.414)
        nn.init.xavier_uniform_(self.a, gain=1.414)
        self.leaky = nn.LeakyReLU(slope)

    def forward(self, h, adj):
        Wh = h @ self.W
        n = Wh.size(1)
        left = Wh @ self.a[:n]
        right = Wh @ self.a[n:]
        e = self.leaky(left + right.T)

        zero_vec = 9e-15 * torch.ones_like(e)
        attention = torch.where(adj > 0, e, zero_vec)
        attention = F.softmax(attention, dim=1)
        attention = F.dropout(attention, self.p, training=self.training)
        out = attention @ Wh
        return F.elu(out) if self.concat else out


class GAT(nn.Module):
    def __init__(self, n_feat, n_hid, n_class, heads=4, p=0.6):
        super().__init__()
        self.p = p
        self.heads = nn.ModuleList([GraphAttentionHead(n_feat, n_hid, p) for _ in range(heads)])
        self.last = GraphAttentionHead(n_hid * heads, n_class, p, concat=False)

    def forward(self, h, adj):
        h = F.dropout(h, self.p, training=self.training)
        h = torch.cat([head(h, adj) for head in self.heads], dim=1)
        h = F.dropout(h, self.p, training=self.training)
        return F.log_softmax(F.elu(self.last(h, adj)), dim=1)
