import math

import torch
from torch import nn


# 多头注意力
class DuoTouZhuYiLi(nn.Module):
    def __init__(self, weidu, toushu, diuqi=0.1):
        super().__init__()
        assert weidu % toushu == 0
        self.toushu = toushu
        self.tou_weidu = weidu // toushu
        self.w_cha = nn.Linear(weidu, weidu)
        self.w_jian = nn.Linear(weidu, weidu)
        self.w_zhi = nn.Linear(weidu, weidu)
        self.w_chu = nn.Linear(weidu, weidu)
        self.diuqi = nn.Dropout(diuqi)

    def fen_tou(self, x):
        pi, chang, _ = x.shape
        return x.reshape(pi, chang, self.toushu, self.tou_weidu).permute(0, 2, 1, 3)

    def forward(self, chaxun, jian, zhi, yanma=None):
        # yanma: (pi, 1 或 Lq, Lk)，1 = 可见，0 = 填充
        q = self.fen_tou(self.w_cha(chaxun))
        k = self.fen_tou(self.w_jian(jian))
        v = self.fen_tou(self.w_zhi(zhi))
        defen = torch.matmul(q, k.transpose(-1, -2)) / math.sqrt(self.tou_weidu)
        if yanma is not None:
            defen = defen.masked_fill(yanma.unsqueeze(1) == 0, float("-inf"))
        quanzhong = torch.softmax(defen, dim=-1)
        shuchu = torch.matmul(self.diuqi(quanzhong), v)
        shuchu = shuchu.permute(0, 2, 1, 3).reshape(chaxun.size(0), chaxun.size(1), -1)
        return self.w_chu(shuchu), quanzhong


class BianMaCeng(nn.Module):
    def __init__(self, weidu, toushu, yincang):
        super().__init__()
        self.zhuyili = DuoTouZhuYiLi(weidu, toushu)
        self.qiankui = nn.Sequential(nn.Linear(weidu, yincang), nn.ReLU(), nn.Linear(yincang, weidu))
        self.gui1 = nn.LayerNorm(weidu)
        self.gui2 = nn.LayerNorm(weidu)

    def forward(self, x, yanma=None):
        y, _ = self.zhuyili(x, x, x, yanma)
        x = self.gui1(x + y)
        return self.gui2(x + self.qiankui(x))
