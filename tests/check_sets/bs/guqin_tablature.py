# -*- coding: utf-8 -*-
"""古琴减字谱补全 (论文复现)

输入: 减字谱的部件序列, 部分被遮住; 输出: 每个位置的部件分布。双向注意力, 不用因果掩码。
训练与评估交替进行 (每轮训练后评估一次), 训练时对注意力权重做 dropout, 评估时不做。
"""
import math

import torch
import torch.nn as nn
import torch.nn.functional as F

部件数 = 120
遮罩 = 部件数
填充 = 部件数 + 1


class 配置:
    宽 = 32
    头 = 4
    层 = 2
    丢弃 = 0.2
    最长 = 64


class QinAttention(nn.Module):
    """x: [B, L, C]; 有效: [B, L] bool, True 表示真实部件 (不是填充)"""

    def __init__(self, c, heads, dropout):
        super().__init__()
        assert c % heads == 0
        self.heads, self.dropout = heads, dropout
        self.to_qkv = nn.Linear(c, c * 3, bias=False)
        self.to_out = nn.Linear(c, c)

    def forward(self, x, 有效=None):
        B, L, C = x.shape
        q, k, v = self.to_qkv(x).reshape(B, L, 3, self.heads, C // self.heads).permute(2, 0, 3, 1, 4)
        掩码 = None
        if 有效 is not None:
            掩码 = 有效[:, None, None, :].expand(B, 1, L, L)
        if not self.training:
            self.dropout = 0.0
        y = F.scaled_dot_product_attention(q, k, v, attn_mask=掩码, dropout_p=self.dropout)
        return self.to_out(y.transpose(1, 2).reshape(B, L, C))


class QinBlock(nn.Module):
    def __init__(self, cfg):
        super().__init__()
        self.ln1, self.ln2 = nn.LayerNorm(cfg.宽), nn.LayerNorm(cfg.宽)
        self.attn = QinAttention(cfg.宽, cfg.头, cfg.丢弃)
        self.mlp = nn.Sequential(nn.Linear(cfg.宽, 4 * cfg.宽), nn.GELU(), nn.Linear(4 * cfg.宽, cfg.宽))

    def forward(self, x, 有效):
        x = x + self.attn(self.ln1(x), 有效)
        return x + self.mlp(self.ln2(x))


class JianziBert(nn.Module):
    def __init__(self, cfg=配置):
        super().__init__()
        self.字 = nn.Embedding(部件数 + 2, cfg.宽, padding_idx=填充)
        self.位 = nn.Embedding(cfg.最长, cfg.宽)
        self.块 = nn.ModuleList([QinBlock(cfg) for _ in range(cfg.层)])
        self.ln = nn.LayerNorm(cfg.宽)

    def forward(self, ids):
        有效 = ids != 填充
        x = self.字(ids) + self.位.weight[: ids.size(1)]
        for b in self.块:
            x = b(x, 有效)
        return self.ln(x) @ self.字.weight[:部件数].T / math.sqrt(x.size(-1))


def 遮盖(ids, p=0.3, g=None):
    选 = (torch.rand(ids.shape, generator=g) < p) & (ids != 填充)
    return ids.masked_fill(选, 遮罩), 选


def 训练(model, 数据, 轮数=2, lr=3e-3):
    opt = torch.optim.AdamW(model.parameters(), lr=lr)
    for e in range(轮数):
        model.train()
        输入, 选 = 遮盖(数据)
        loss = F.cross_entropy(model(输入)[选], 数据[选])
        opt.zero_grad()
        loss.backward()
        opt.step()
        model.eval()
        with torch.no_grad():
            输入, 选 = 遮盖(数据)
            acc = (model(输入).argmax(-1) == 数据)[选].float().mean()
        print(f"第{e}轮 loss={loss.item():.3f} acc={acc.item():.3f}")


if __name__ == "__main__":
    torch.manual_seed(0)
    数据 = torch.randint(0, 部件数, (4, 20))
    数据[2, 15:] = 填充
    训练(JianziBert(), 数据)
