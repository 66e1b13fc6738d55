"""GAT (Velickovic et al., 2018) dengan matriks ketetanggaan padat, untuk Cora / Citeseer.

    e_ij     = LeakyReLU(a_1^T W h_i + a_2^T W h_j)
    alpha_ij = softmax_{j in N(i)} e_ij
    h'_i     = ELU( sum_j alpha_ij W h_j )

`adj` (N, N) berisi 1 bila ada sisi i-j (termasuk self-loop) dan 0 bila tidak; hanya tetangga
yang ikut dalam softmax.
"""
import torch
import torch.nn as nn
import torch.nn.functional as F


class GraphAttentionLayer(nn.Module):
    def __init__(self, in_features, out_features, dropout=0.6, alpha=0.2, concat=True):
        super(GraphAttentionLayer, self).__init__()
        self.dropout = dropout
        self.out_features = out_features
        self.concat = concat
        self.W = nn.Parameter(torch.empty(in_features, out_features))
        self.a = nn.Parameter(torch.empty(2 * out_features, 1))
        nn.init.xavier_uniform_(self.W, gain=1.414)
        nn.init.xavier_uniform_(self.a, gain=1.414)
        self.leakyrelu = nn.LeakyReLU(alpha)

    def forward(self, h, adj):
        Wh = h @ self.W
        kiri = Wh @ self.a[:self.out_features]
        kanan = Wh @ self.a[self.out_features:]
        e = self.leakyrelu(kiri + kanan.T)

        e = e * adj
        attention = F.softmax(e, dim=1)
        attention = F.dropout(attention, self.dropout, training=self.training)
        h_prime = attention @ Wh
        return F.elu(h_prime) if self.concat else h_prime


class GAT(nn.Module):
    def __init__(self, nfeat, nhid, nclass, nheads=4, dropout=0.6):
        super(GAT, self).__init__()
        self.dropout = dropout
        self.heads = nn.ModuleList(
            [GraphAttentionLayer(nfeat, nhid, dropout) for _ in range(nheads)]
        )
        self.out = GraphAttentionLayer(nhid * nheads, nclass, dropout, concat=False)

    def forward(self, x, adj):
        x = F.dropout(x, self.dropout, training=self.training)
        x = torch.cat([head(x, adj) for head in self.heads], dim=1)
        x = F.dropout(x, self.dropout, training=self.training)
        return F.log_softmax(self.out(x, adj), dim=1)


if __name__ == "__main__":
    a = (torch.rand(8, 8) > 0.7).float()
    a = ((a + a.T + torch.eye(8)) > 0).float()
    print(GAT(10, 4, 3).eval()(torch.randn(8, 10), a).shape)
