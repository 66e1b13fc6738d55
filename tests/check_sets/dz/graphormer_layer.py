"""Graphormer 层(pre-norm),带空间编码与虚拟节点。

    x      (B, N, D)  节点特征
    spd    (B, N, N)  long,最短路径长度;-1 表示不可达
    real   (B, N)     bool,True = 真实节点,False = 填充(填充只在末尾;每个图至少一个真实节点)
    token  (B, D)     虚拟节点([VNode])的特征
    返回   (x', token'),形状与输入相同;填充位置的输出无意义

logit(i, j) = q_i·k_j / sqrt(d) + b[spd(i, j)];距离超过 max_dist 时按 max_dist 计,
不可达有单独的偏置;任何涉及虚拟节点的一对用专门的偏置。虚拟节点看得到所有真实节点,反之亦然。
"""
import torch
from torch import nn
import torch.nn.functional as F


class GraphormerLayer(nn.Module):
    def __init__(self, D, heads, max_dist=3):
        super().__init__()
        self.heads, self.max_dist = heads, max_dist
        # 0..max_dist:距离;max_dist+1:不可达;max_dist+2:虚拟节点
        self.spatial = nn.Embedding(max_dist + 3, heads)
        self.ln1, self.ln2 = nn.LayerNorm(D), nn.LayerNorm(D)
        self.qkv, self.proj = nn.Linear(D, 3 * D), nn.Linear(D, D)
        self.ffn = nn.Sequential(nn.Linear(D, 2 * D), nn.GELU(), nn.Linear(2 * D, D))

    def bias(self, spd):
        bucket = spd.clamp(max=self.max_dist)
        bucket = torch.where(spd < 0, self.max_dist + 1, bucket)
        bucket = F.pad(bucket, (1, 0, 1, 0), value=self.max_dist + 2)     # 虚拟节点在第 0 位
        return self.spatial(bucket).permute(0, 3, 1, 2)

    def forward(self, x, spd, real, token):
        h = torch.cat([token[:, None], x], dim=1)
        B, M, D = h.shape
        see = F.pad(real, (1, 0), value=True)[:, None, None, :]
        bias = self.bias(spd).masked_fill(~see, float("-inf"))
        q, k, v = self.qkv(self.ln1(h)).view(B, M, 3, self.heads, D // self.heads).permute(2, 0, 3, 1, 4)
        o = F.scaled_dot_product_attention(q, k, v, attn_mask=bias)
        h = h + self.proj(o.transpose(1, 2).reshape(B, M, D))
        h = h + self.ffn(self.ln2(h))
        return h[:, 1:], h[:, 0]
