# 钙钛矿带隙预测:晶体图上的多头注意力(GATv2 形式)
# 边表 edge = [2, E],edge[0] 为源原子 j,edge[1] 为目标原子 i,消息由 j 流向 i。
# 同一目标原子的所有入边权重之和为 1;没有入边的原子输出为零(再加残差)。
import torch
import torch.nn as nn
import torch.nn.functional as F

RBF_CENTERS = 16
CUTOFF = 6.0  # 埃


def rbf(dist, n=RBF_CENTERS, cutoff=CUTOFF):
    """高斯基展开,dist: [E] -> [E, n]"""
    mu = torch.linspace(0.0, cutoff, n, device=dist.device)
    return torch.exp(-((dist[:, None] - mu) ** 2) / (cutoff / n) ** 2)


def periodic_edges(frac, lattice, cutoff=CUTOFF):
    """最近 27 个晶胞内截断半径以下的有向边。返回 (edge, dist)"""
    shifts = torch.cartesian_prod(*[torch.tensor([-1.0, 0.0, 1.0])] * 3)
    src, dst, dist = [], [], []
    for s in shifts:
        d = (frac[None, :, :] + s - frac[:, None, :]) @ lattice   # i, j
        r = d.norm(dim=-1)
        ok = (r < cutoff) & (r > 1e-6)
        i, j = ok.nonzero(as_tuple=True)
        dst.append(i)
        src.append(j)
        dist.append(r[i, j])
    return torch.stack([torch.cat(src), torch.cat(dst)]), torch.cat(dist)


class EdgeAttention(nn.Module):
    def __init__(self, dim, heads=4, edge_dim=RBF_CENTERS, slope=0.2):
        super().__init__()
        assert dim % heads == 0
        self.heads, self.hd, self.slope = heads, dim // heads, slope
        self.lin_src = nn.Linear(dim, dim)
        self.lin_dst = nn.Linear(dim, dim)
        self.lin_edge = nn.Linear(edge_dim, dim, bias=False)
        self.att = nn.Parameter(torch.empty(heads, self.hd))
        nn.init.xavier_uniform_(self.att)

    def forward(self, x, edge, edge_feat):
        """x: [N, dim];  edge: [2, E];  edge_feat: [E, edge_dim]"""
        j, i = edge
        n = x.shape[0]
        src = self.lin_src(x).view(n, self.heads, self.hd)
        dst = self.lin_dst(x).view(n, self.heads, self.hd)
        e = self.lin_edge(edge_feat).view(-1, self.heads, self.hd)

        # 先激活,再与 att 点乘 —— 这是 GATv2 与 GAT 的区别
        score = (F.leaky_relu(src[j] + dst[i] + e, self.slope) * self.att).sum(-1)   # E, H

        # 按目标原子分组的 softmax
        idx = i[:, None].expand_as(score)
        top = score.new_full((n, self.heads), float("-inf"))
        top = top.scatter_reduce(0, idx, score.detach(), reduce="amax")
        w = torch.exp(score - top[i])
        z = score.new_zeros(n, self.heads).index_add(0, i, w)
        w = w / z[i]

        return score.new_zeros(n, self.heads, self.hd).index_add(0, i, w[..., None] * src[j]).flatten(1)


class BandGapNet(nn.Module):
    def __init__(self, species=100, dim=32, layers=3):
        super().__init__()
        self.emb = nn.Embedding(species, dim)
        self.layers = nn.ModuleList([EdgeAttention(dim) for _ in range(layers)])
        self.norms = nn.ModuleList([nn.LayerNorm(dim) for _ in range(layers)])
        self.head = nn.Sequential(nn.Linear(dim, dim), nn.Softplus(), nn.Linear(dim, 1))

    def forward(self, z, frac, lattice):
        edge, dist = periodic_edges(frac, lattice)
        feat = rbf(dist)
        h = self.emb(z)
        for layer, norm in zip(self.layers, self.norms):
            h = h + F.elu(layer(norm(h), edge, feat))
        return self.head(h.mean(0))


if __name__ == "__main__":
    net = BandGapNet()
    frac = torch.tensor([[0.0, 0, 0], [0.5, 0.5, 0.5], [0.5, 0.5, 0], [0.5, 0, 0.5], [0, 0.5, 0.5]])
    print(net(torch.tensor([20, 22, 8, 8, 8]), frac, torch.eye(3) * 3.9))
