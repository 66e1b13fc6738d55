"""Graph Attention Networks (Velickovic et al., ICLR 2018), dense adjacency version."""
import torch
import torch.nn as nn
import torch.nn.functional as F


class GraphAttentionLayer(nn.Module):
    """All heads of one layer.

    h   : N x in_features
    adj : N x N, adj[i, j] > 0 where node i may look at node j; self loops are added here
    """

    def __init__(self, in_features=12, out_features=8, n_heads=3, alpha=0.2, dropout=0.6, concat=True):
        super().__init__()
        self.n_heads, self.out_features, self.concat = n_heads, out_features, concat
        self.dropout = dropout
        self.W = nn.Parameter(torch.empty(n_heads, in_features, out_features))
        self.a_src = nn.Parameter(torch.empty(n_heads, out_features, 1))
        self.a_dst = nn.Parameter(torch.empty(n_heads, out_features, 1))
        for p in (self.W, self.a_src, self.a_dst):
            nn.init.xavier_uniform_(p, gain=1.414)
        self.leakyrelu = nn.LeakyReLU(alpha)

    def forward(self, h, adj):
        N = h.size(0)
        h = F.dropout(h, self.dropout, training=self.training)
        Wh = torch.matmul(h, self.W)                      # heads x N x out
        f1 = torch.matmul(Wh, self.a_src)                 # heads x N x 1
        f2 = torch.matmul(Wh, self.a_dst)
        # a^T [Wh_i || Wh_j] falls apart into a sum
        e = self.leakyrelu(f1 + f2.transpose(1, 2))       # heads x N x N

        edge = (adj > 0) | torch.eye(N, dtype=torch.bool, device=adj.device)
        e = e.masked_fill(~edge, float("-inf"))
        att = F.softmax(e, dim=2)
        att = F.dropout(att, self.dropout, training=self.training)
        out = torch.matmul(att, Wh)
        if self.concat:
            return F.elu(out.permute(1, 0, 2).reshape(N, -1))
        return out.mean(dim=0)
