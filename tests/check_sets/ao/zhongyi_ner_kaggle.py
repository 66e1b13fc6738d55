# 中医病历命名实体识别  baseline 0.83
# 字向量 + 词典特征 + transformer + CRF(后处理)
import math
import torch
import torch.nn as nn
import torch.nn.functional as F

标签 = ["O", "B-症状", "I-症状", "B-方剂", "I-方剂", "B-证型", "I-证型"]


class 配置:
    字数 = 6000
    词典特征 = 4
    维度 = 128
    头数 = 4
    层数 = 3
    丢弃率 = 0.2
    最长 = 512


class ZiZhuYiLi(nn.Module):
    """多头自注意力: 每个头内做缩放点积 (除以每头维度的平方根)"""

    def __init__(self, 维度, 头数, 丢弃率):
        super().__init__()
        self.头数 = 头数
        self.每头 = 维度 // 头数
        self.维度 = 维度
        self.Wq = nn.Linear(维度, 维度)
        self.Wk = nn.Linear(维度, 维度)
        self.Wv = nn.Linear(维度, 维度)
        self.Wo = nn.Linear(维度, 维度)
        self.丢弃率 = 丢弃率

    def forward(self, x, 有效):
        """x: [批, 长, 维度]; 有效: [批, 长], 1 为真实字, 0 为填充"""
        批, 长, _ = x.shape
        q = self.Wq(x).view(批, 长, self.头数, self.每头).transpose(1, 2)
        k = self.Wk(x).view(批, 长, self.头数, self.每头).transpose(1, 2)
        v = self.Wv(x).view(批, 长, self.头数, self.每头).transpose(1, 2)
        分数 = torch.matmul(q, k.transpose(-1, -2)) / math.sqrt(self.维度)
        分数 = 分数.masked_fill(有效[:, None, None, :] == 0, -1e9)
        权重 = F.softmax(分数, dim=-1)
        权重 = F.dropout(权重, self.丢弃率)
        结果 = torch.matmul(权重, v)
        结果 = 结果.reshape(批, 长, self.维度)
        return self.Wo(结果)


class 编码层(nn.Module):
    def __init__(self, c):
        super().__init__()
        self.注意 = ZiZhuYiLi(c.维度, c.头数, c.丢弃率)
        self.前馈 = nn.Sequential(nn.Linear(c.维度, c.维度 * 4), nn.GELU(), nn.Linear(c.维度 * 4, c.维度))
        self.归一1 = nn.LayerNorm(c.维度)
        self.归一2 = nn.LayerNorm(c.维度)
        self.丢弃 = nn.Dropout(c.丢弃率)

    def forward(self, x, 有效):
        x = self.归一1(x + self.丢弃(self.注意(x, 有效)))
        return self.归一2(x + self.丢弃(self.前馈(x)))


class 实体模型(nn.Module):
    def __init__(self, c=配置):
        super().__init__()
        self.字 = nn.Embedding(c.字数, c.维度, padding_idx=0)
        self.词典 = nn.Linear(c.词典特征, c.维度)
        self.位置 = nn.Embedding(c.最长, c.维度)
        self.层 = nn.ModuleList([编码层(c) for _ in range(c.层数)])
        self.输出 = nn.Linear(c.维度, len(标签))

    def forward(self, 字编号, 词典特征):
        有效 = (字编号 != 0).long()
        x = self.字(字编号) + self.词典(词典特征)
        x = x + self.位置.weight[: 字编号.size(1)]
        for 层 in self.层:
            x = 层(x, 有效)
        return self.输出(x)


def 解码(logits, 长度):
    """禁止 I-x 接在不同类型之后"""
    出 = []
    for 行, n in zip(logits.argmax(-1).tolist(), 长度):
        前, 结果 = "O", []
        for i in 行[:n]:
            t = 标签[i]
            if t[0] == "I" and (前 == "O" or 前[2:] != t[2:]):
                t = "O"
            结果.append(t)
            前 = t
        出.append(结果)
    return 出
