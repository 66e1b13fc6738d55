# Passing-network model: players are nodes, a pass j -> i in the last 10 phases is an edge.
# Dense GAT (Velickovic et al. 2018) since a team only has 15 nodes.
import torch
import torch.nn as nn
import torch.nn.functional as F


class PassGAT(nn.Module):
    """One graph attention layer over a batch of passing graphs.

    Player i gathers from the players who passed to him:
        e_ij = LeakyReLU(a_recv . W h_i + a_send . W h_j)
        alpha_ij = softmax over j in N(i) + {i}
    There is no 1/sqrt(d): this is the GAT score, not a dot product.

    forward(h, adj)
        h    (B, N, in_feats)
        adj  (B, N, N)  nonzero adj[b, i, j] = player j passed to player i.
             Self loops are added here, no need to add them before.
    returns (B, N, heads * out_feats) if concat else (B, N, out_feats) (mean of heads)
    """

    def __init__(self, in_feats=12, out_feats=8, heads=4, slope=0.2, feat_drop=0.0, attn_drop=0.0, concat=True):
        super().__init__()
        self.heads = heads
        self.out_feats = out_feats
        self.concat = concat
        self.slope = slope
        self.lin = nn.Linear(in_feats, heads * out_feats, bias=False)
        self.a_recv = nn.Parameter(torch.empty(heads, out_feats))
        self.a_send = nn.Parameter(torch.empty(heads, out_feats))
        self.bias = nn.Parameter(torch.zeros(heads * out_feats if concat else out_feats))
        self.feat_drop = nn.Dropout(feat_drop)
        self.attn_drop = nn.Dropout(attn_drop)
        nn.init.xavier_uniform_(self.lin.weight)
        nn.init.xavier_uniform_(self.a_recv)
        nn.init.xavier_uniform_(self.a_send)

    def forward(self, h, adj):
        B, N, _ = h.shape
        z = self.lin(self.feat_drop(h)).view(B, N, self.heads, self.out_feats)

        recv = (z * self.a_recv).sum(-1)   # B N H
        send = (z * self.a_send).sum(-1)   # B N H
        e = F.leaky_relu(recv.unsqueeze(2) + send.unsqueeze(1), self.slope)  # B i j H

        eye = torch.eye(N, dtype=torch.bool, device=h.device)
        edge = (adj != 0) | eye
        e = e.masked_fill(~edge.unsqueeze(-1), float("-inf"))
        alpha = torch.softmax(e, dim=2)    # over j, the sender
        alpha = self.attn_drop(alpha)

        out = torch.einsum("bijh,bjhf->bihf", alpha, z)
        out = out.flatten(2) if self.concat else out.mean(dim=2)
        return out + self.bias


if __name__ == "__main__":
    g = PassGAT()
    print(g(torch.randn(2, 15, 12), torch.rand(2, 15, 15) > 0.8).shape)
