"""BST: Behavior Sequence Transformer for CTR (阿里巴巴 2019), 简化版

hist    : (B, L, D)  用户历史行为的 embedding (含位置)
target  : (B, D)     候选商品的 embedding
mask    : (B, L)     1 = 真实行为, 0 = 补齐的空位
other   : (B, F)     其它特征

把候选商品拼在序列最后, 做一层 scaled dot-product 多头自注意力 (每个头除以 sqrt(d_head)),
补齐的空位不应得到任何注意力权重。候选商品永远有效。
取候选商品位置的输出 + other 送入 MLP, 返回点击率 (B,)。
"""
import torch
import torch.nn as nn


class BST(nn.Module):
    def __init__(self, dim, heads, other_dim, hidden=64):
        super().__init__()
        self.heads, self.d = heads, dim // heads
        self.W_Q = nn.Linear(dim, dim, bias=False)
        self.W_K = nn.Linear(dim, dim, bias=False)
        self.W_V = nn.Linear(dim, dim, bias=False)
        self.norm = nn.LayerNorm(dim)
        self.mlp = nn.Sequential(nn.Linear(dim + other_dim, hidden), nn.LeakyReLU(), nn.Linear(hidden, 1))

    def self_attention(self, x, mask):
        B, L, D = x.shape
        q = self.W_Q(x).view(B, L, self.heads, self.d).permute(0, 2, 1, 3)
        k = self.W_K(x).view(B, L, self.heads, self.d).permute(0, 2, 1, 3)
        v = self.W_V(x).view(B, L, self.heads, self.d).permute(0, 2, 1, 3)
        score = torch.matmul(q, k.transpose(-2, -1))
        score = score * mask[:, None, None, :]
        att = torch.softmax(score, dim=-1)
        return torch.matmul(att, v).permute(0, 2, 1, 3).reshape(B, L, D)

    def forward(self, hist, target, mask, other):
        x = torch.cat([hist, target.unsqueeze(1)], dim=1)
        mask = torch.cat([mask.float(), torch.ones_like(mask[:, :1]).float()], dim=1)
        x = self.norm(x + self.self_attention(x, mask))
        return torch.sigmoid(self.mlp(torch.cat([x[:, -1], other], dim=1))).squeeze(1)
