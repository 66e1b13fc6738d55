"""Dense multi-head GAT layer, for small graphs (Cora etc.)."""
import torch
import torch.nn as nn
import torch.nn.functional as F


class GATLayer(nn.Module):
    """
    h:   (N, in_features)
    adj: (N, N), adj[i, j] != 0 when node i receives from node j. Self loops are added here.

    e_ij = LeakyReLU(a^T [W h_i || W h_j]), normalised over the neighbours j of i.
    Heads are concatenated (concat=True, with ELU) or averaged (last layer).
    """

    def __init__(self, in_features=8, out_features=6, n_heads=3, dropout=0.0, alpha=0.2, concat=True):
        super().__init__()
        self.n_heads, self.out_features, self.concat = n_heads, out_features, concat
        self.W = nn.Parameter(torch.empty(n_heads, in_features, out_features))
        self.a_dst = nn.Parameter(torch.empty(n_heads, out_features, 1))
        self.a_src = nn.Parameter(torch.empty(n_heads, out_features, 1))
        for p in (self.W, self.a_dst, self.a_src):
            nn.init.xavier_uniform_(p, gain=1.414)
        self.leakyrelu = nn.LeakyReLU(alpha)
        self.dropout = dropout

    def forward(self, h, adj):
        N = h.size(0)
        h = F.dropout(h, self.dropout, training=self.training)
        Wh = torch.matmul(h.unsqueeze(0), self.W)                  # (H, N, F')
        e = torch.matmul(Wh, self.a_dst) + torch.matmul(Wh, self.a_src).transpose(1, 2)
        e = self.leakyrelu(e)                                      # (H, N, N)

        edges = (adj != 0) | torch.eye(N, dtype=torch.bool, device=adj.device)
        e = e.masked_fill(~edges, float("-inf"))
        attention = F.softmax(e, dim=2)
        attention = F.dropout(attention, self.dropout, training=self.training)
        out = torch.matmul(attention, Wh)                          # (H, N, F')
        if self.concat:
            return F.elu(out.permute(1, 0, 2).reshape(N, self.n_heads * self.out_features))
        return out.mean(dim=0)


class GAT(nn.Module):
    def __init__(self, nfeat=8, nhid=6, nclass=4, nheads=3, dropout=0.6):
        super().__init__()
        self.l1 = GATLayer(nfeat, nhid, nheads, dropout)
        self.l2 = GATLayer(nhid * nheads, nclass, 1, dropout, concat=False)

    def forward(self, h, adj):
        return F.log_softmax(self.l2(self.l1(h, adj), adj), dim=1)
