"""
Informer 的 ProbSparse 自注意力(Zhou et al., AAAI 2021),课程作业用的简化实现。

输入 x: (B, L, D);输出: (B, L, D)。编码器版本,没有掩码,所有时刻互相可见。

做法:
  1. 对每个查询 i 计算稀疏度  M(i) = max_j s_ij - mean_j s_ij ,其中 s_ij = q_i·k_j / sqrt(d)
     (作业里不做键的随机采样,直接用全部的键,所以结果是确定的)
  2. 每个头取 M 最大的 u = min(L, ceil(c * ln L)) 个查询,做普通的 softmax 注意力
  3. 其余"懒惰"的查询输出 V 的均值
各头的 u 个查询互不相同。
"""
import math
import torch
import torch.nn as nn


class 概率稀疏注意力(nn.Module):
    def __init__(self, D, 头数, c=1.0):
        super().__init__()
        self.头数 = 头数
        self.d = D // 头数
        self.c = c
        self.投影 = nn.ModuleList([nn.Linear(D, D) for _ in range(3)])
        self.输出 = nn.Linear(D, D)

    def 分头(self, t):
        B, L, _ = t.shape
        return t.reshape(B, L, self.头数, self.d).permute(0, 2, 1, 3)

    def forward(self, x):
        B, L, D = x.shape
        q, k, v = (self.分头(层(x)) for 层 in self.投影)
        分数 = q @ k.mT / math.sqrt(self.d)                       # (B, H, L, L)
        M = 分数.amax(-1) - 分数.mean(-1)
        u = min(L, math.ceil(self.c * math.log(L))) if L > 1 else 1
        选中 = M.topk(u, dim=-1).indices                          # (B, H, u)

        行 = 选中.unsqueeze(-1).expand(-1, -1, -1, L)
        权重 = torch.softmax(分数.gather(2, 行), dim=-1)           # (B, H, u, L)
        主动 = 权重 @ v                                            # (B, H, u, d)

        结果 = v.mean(dim=2, keepdim=True).repeat(1, 1, L, 1)
        结果 = 结果.scatter(2, 选中.unsqueeze(-1).expand(-1, -1, -1, self.d), 主动)
        return self.输出(结果.permute(0, 2, 1, 3).reshape(B, L, D))
