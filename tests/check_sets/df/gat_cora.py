# GAT (Velickovic 2018) without torch_geometric
import torch
import torch.nn as nn
import torch.nn.functional as F


class GATConv(nn.Module):
    def __init__(self, fin, fout, K=4, concat=True, p=0.6):
        super().__init__()
        self.K, self.fout, self.concat, self.p = K, fout, concat, p
        self.W = nn.Linear(fin, K * fout, bias=False)
        self.a_src = nn.Parameter(torch.empty(1, K, fout))
        self.a_dst = nn.Parameter(torch.empty(1, K, fout))
        self.b = nn.Parameter(torch.zeros(K * fout if concat else fout))
        nn.init.xavier_uniform_(self.a_src)
        nn.init.xavier_uniform_(self.a_dst)

    def forward(self, x, edge_index):
        """x: (N, fin), edge_index: (2, E) rows are source and target; self loops get added here."""
        N = x.size(0)
        loops = torch.arange(N, device=x.device)
        edge_index = edge_index[:, edge_index[0] != edge_index[1]]
        src = torch.cat([edge_index[0], loops])
        dst = torch.cat([edge_index[1], loops])
        z = self.W(F.dropout(x, self.p, self.training)).view(N, self.K, self.fout)
        e = F.leaky_relu((z * self.a_src).sum(-1)[src] + (z * self.a_dst).sum(-1)[dst], 0.2)
        idx = dst.unsqueeze(1).expand(-1, self.K)
        top = torch.full((N, self.K), float("-inf"), device=x.device).scatter_reduce(0, idx, e.detach(), "amax")
        e = torch.exp(e - top[dst])
        alpha = e / torch.zeros(N, self.K, device=x.device).index_add(0, dst, e)[dst]
        alpha = F.dropout(alpha, self.p, self.training)
        out = torch.zeros_like(z).index_add(0, dst, alpha.unsqueeze(-1) * z[src])
        out = out.flatten(1) if self.concat else out.mean(1)
        return out + self.b
