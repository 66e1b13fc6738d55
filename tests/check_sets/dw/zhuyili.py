"""多头注意力（编码器块，后归一化）。

zhuyili_kuai(dim, tou): 输入 shuru (pi, chang, dim)，youxiao (pi, chang) 布尔，True 表示真实词，
False 表示填充；每句至少有一个真实词。输出 (pi, chang, dim)，填充位置输出为 0。

分数除以 sqrt(每头维数)，softmax 沿"键"方向；填充的键权重恰好为 0。
残差之后做 LayerNorm（后归一化），前馈层用 GELU。
(Encoder block with post-norm.  youxiao: True = real word, False = padding.)
"""
import torch
import torch.nn as nn
import torch.nn.functional as F


class zhuyili_kuai(nn.Module):
    def __init__(self, dim, tou):
        super().__init__()
        self.tou, self.wei = tou, dim // tou
        # 键、查询、值 一起投影：先键，再查询，最后值
        self.jian_cha_zhi = nn.Linear(dim, 3 * dim)
        self.chu = nn.Linear(dim, dim)
        self.gui1, self.gui2 = nn.LayerNorm(dim), nn.LayerNorm(dim)
        self.qian = nn.Linear(dim, 4 * dim)
        self.hou = nn.Linear(4 * dim, dim)

    def forward(self, shuru, youxiao):
        pi, chang, dim = shuru.shape
        jian, cha, zhi = self.jian_cha_zhi(shuru).view(pi, chang, 3, self.tou, self.wei).unbind(2)

        # fen: (pi, jian的位置, cha的位置, tou)
        fen = torch.einsum("bkhd,bqhd->bkqh", jian, cha) / self.wei ** 0.5
        fen = fen.masked_fill(~youxiao[:, :, None, None], float("-inf"))
        quan = fen.softmax(dim=1)
        he = torch.einsum("bkqh,bkhd->bqhd", quan, zhi).flatten(2)

        y = self.gui1(shuru + self.chu(he))
        y = self.gui2(y + self.hou(F.gelu(self.qian(y))))
        return y * youxiao.unsqueeze(-1)
