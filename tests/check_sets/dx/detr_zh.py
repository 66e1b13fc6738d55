"""DETR 解码器层(Carion et al. 2020),课程项目:货架商品检测。

参数:
    目标     tgt     (B, 查询数, D)    物体查询的内容,初始为 0
    查询位置 qpos    (B, 查询数, D)    可学习的查询嵌入
    记忆     memory  (B, 像素数, D)    编码器的输出
    像素位置 ppos    (B, 像素数, D)    图像位置编码
    有效     valid   (B, 像素数) bool  True = 真实像素,False = 为了凑批次而补的像素
返回 (B, 查询数, D)。

位置编码只加在 q 和 k 上,不加在 v 上。先自注意力(查询之间,没有掩码),再交叉注意力
(只看真实像素),最后前馈网络;后归一化,和论文一样。
"""
import torch
import torch.nn as nn
import torch.nn.functional as F


class 解码器层(nn.Module):
    def __init__(self, D=32, 头数=4, 隐藏=64, dropout=0.1):
        super().__init__()
        self.自注意力 = nn.MultiheadAttention(D, 头数, dropout=dropout, batch_first=True)
        self.交叉注意力 = nn.MultiheadAttention(D, 头数, dropout=dropout, batch_first=True)
        self.线性1 = nn.Linear(D, 隐藏)
        self.线性2 = nn.Linear(隐藏, D)
        self.归一 = nn.ModuleList([nn.LayerNorm(D) for _ in range(3)])
        self.丢弃 = nn.Dropout(dropout)

    def forward(self, tgt, qpos, memory, ppos, valid):
        q = k = tgt + qpos
        y, _ = self.自注意力(q, k, tgt, need_weights=False)
        tgt = self.归一[0](tgt + self.丢弃(y))

        y, _ = self.交叉注意力(
            tgt + qpos,
            memory + ppos,
            memory,
            key_padding_mask=valid,
            need_weights=False,
        )
        tgt = self.归一[1](tgt + self.丢弃(y))

        y = self.线性2(self.丢弃(F.relu(self.线性1(tgt))))
        return self.归一[2](tgt + self.丢弃(y))
