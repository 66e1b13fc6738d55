import torch
from torch import nn
import math


class 多头注意力(nn.Module):
    """掩码: 布尔张量 (批, 1, 1, 长度), True 表示可以关注该位置。"""

    def __init__(self, 维度, 头数):
        super().__init__()
        self.头数 = 头数
        self.每头 = 维度 // 头数
        self.查询 = nn.Linear(维度, 维度)
        self.键 = nn.Linear(维度, 维度)
        self.值 = nn.Linear(维度, 维度)
        self.输出 = nn.Linear(维度, 维度)

    def 分头(self, x):
        批, 长, _ = x.shape
        return x.reshape(批, 长, self.头数, self.每头).permute(0, 2, 1, 3)

    def forward(self, x, 掩码=None):
        q, k, v = self.分头(self.查询(x)), self.分头(self.键(x)), self.分头(self.值(x))
        得分 = torch.matmul(q, k.transpose(-1, -2)) / math.sqrt(self.每头)
        if 掩码 is not None:
            得分 = 得分.masked_fill(torch.logical_not(掩码), -1e20)
        权重 = torch.softmax(得分, dim=-1)
        结果 = torch.matmul(权重, v).permute(0, 2, 1, 3).flatten(2)
        return self.输出(结果)
