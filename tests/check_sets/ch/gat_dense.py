import torch
import torch.nn as nn
import torch.nn.functional as F


class GATLayer(nn.Module):
    """
    Multi-head graph attention layer (Velickovic et al. 2018), dense adjacency.

        e_ij = LeakyReLU(a^T [W h_i || W h_j]),  alpha_ij = softmax over j in N(i)

    forward(h, adj):
        h    (N, in_features) node features
        adj  (N, N) adj[i, j] != 0 when node i receives messages from node j;
             self loops are added here
    """

    def __init__(self, in_features, out_features, heads=2, dropout=0.6, alpha=0.2, concat=True):
        super().__init__()
        self.heads = heads
        self.out_features = out_features
        self.concat = concat
        self.dropout = dropout
        self.W = nn.Parameter(torch.empty(heads, in_features, out_features))
        self.a_dst = nn.Parameter(torch.empty(heads, out_features))
        self.a_src = nn.Parameter(torch.empty(heads, out_features))
        self.leakyrelu = nn.LeakyReLU(alpha)
        for p in (self.W, self.a_dst, self.a_src):
            nn.init.xavier_uniform_(p, gain=1.414)

    def forward(self, h, adj):
        n = h.size(0)
        h = F.dropout(h, self.dropout, training=self.training)
        Wh = torch.einsum("nf,hfo->hno", h, self.W)

        # a^T [Wh_i || Wh_j] splits in two parts, one for each end
        dst = torch.einsum("hno,ho->hn", Wh, self.a_dst)
        src = torch.einsum("hno,ho->hn", Wh, self.a_src)
        e = self.leakyrelu(dst.unsqueeze(2) + src.unsqueeze(1))   # heads, N, N

        edges = (adj != 0) | torch.eye(n, dtype=torch.bool, device=h.device)
        e = e.masked_fill(~edges, float("-inf"))
        attention = F.softmax(e, dim=-1)
        attention = F.dropout(attention, self.dropout, training=self.training)

        out = torch.bmm(attention, Wh)                            # heads, N, out
        if self.concat:
            return F.elu(out.transpose(0, 1).reshape(n, self.heads * self.out_features))
        return out.mean(dim=0)
