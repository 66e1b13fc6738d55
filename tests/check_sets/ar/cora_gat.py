"""GAT (Velickovic et al. 2018) on Cora, dense adjacency.  Weekend project.

adj[i, j] != 0  <=>  there is an edge from j into i (i listens to j).
"""
import torch
import torch.nn as nn
import torch.nn.functional as F


class GraphAttentionLayer(nn.Module):
    """All heads at once.  e_ij = LeakyReLU(a_l . W h_i + a_r . W h_j),
    softmax over the neighbours j of i."""

    def __init__(self, in_feats, out_feats, n_heads, alpha=0.2, attn_drop=0.6, concat=True):
        super().__init__()
        self.n_heads, self.out_feats, self.concat = n_heads, out_feats, concat
        self.W = nn.Parameter(torch.empty(n_heads, in_feats, out_feats))
        self.a_l = nn.Parameter(torch.empty(n_heads, out_feats, 1))
        self.a_r = nn.Parameter(torch.empty(n_heads, out_feats, 1))
        for p in (self.W, self.a_l, self.a_r):
            nn.init.xavier_uniform_(p, gain=1.414)
        self.lrelu = nn.LeakyReLU(alpha)
        self.drop = nn.Dropout(attn_drop)

    def forward(self, h, adj):
        n = h.size(0)
        eye = torch.eye(n, dtype=torch.bool, device=h.device)
        edges = (adj != 0) | eye                     # self loops, so nobody is left alone
        Wh = torch.matmul(h.unsqueeze(0), self.W)    # heads, n, out
        src = Wh @ self.a_l                          # heads, n, 1
        dst = (Wh @ self.a_r).transpose(1, 2)        # heads, 1, n
        e = self.lrelu(src + dst)
        e = e.masked_fill(~edges, float("-inf"))
        att = self.drop(torch.softmax(e, dim=2))
        out = att @ Wh                               # heads, n, out
        if self.concat:
            return F.elu(out.permute(1, 0, 2).reshape(n, self.n_heads * self.out_feats))
        return out.mean(dim=0)


class GAT(nn.Module):
    def __init__(self, n_feat, n_hid, n_class, n_heads=8, dropout=0.6):
        super().__init__()
        self.dropout = dropout
        self.l1 = GraphAttentionLayer(n_feat, n_hid, n_heads, attn_drop=dropout)
        self.l2 = GraphAttentionLayer(n_hid * n_heads, n_class, 1, attn_drop=dropout, concat=False)

    def forward(self, x, adj):
        x = F.dropout(x, self.dropout, self.training)
        x = self.l1(x, adj)
        x = F.dropout(x, self.dropout, self.training)
        return F.log_softmax(self.l2(x, adj), dim=1)


def train_step(model, opt, x, adj, y, idx):
    model.train()
    opt.zero_grad()
    loss = F.nll_loss(model(x, adj)[idx], y[idx])
    loss.backward()
    opt.step()
    return loss.item()


if __name__ == "__main__":
    torch.manual_seed(0)
    x, adj = torch.rand(20, 9), (torch.rand(20, 20) > 0.8).float()
    y = torch.randint(0, 3, (20,))
    net = GAT(9, 4, 3)
    opt = torch.optim.Adam(net.parameters(), lr=5e-3, weight_decay=5e-4)
    for ep in range(3):
        print(train_step(net, opt, x, adj, y, torch.arange(10)))
