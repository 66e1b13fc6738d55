# bi ye she ji: wen ben fen lei mo xing
import torch
import torch.nn as nn


class DuoTouZhuYiLi(nn.Module):
    """duo tou zi zhu yi li.  shuru: (piliang, changdu, weidu); yanma: (piliang, changdu), 1 = ci, 0 = tian chong"""

    def __init__(self, weidu=16, toushu=4):
        super().__init__()
        self.toushu = toushu
        self.meitou = weidu // toushu
        self.chaxun = nn.Linear(weidu, weidu)
        self.jian = nn.Linear(weidu, weidu)
        self.zhi = nn.Linear(weidu, weidu)
        self.shuchu = nn.Linear(weidu, weidu)

    def forward(self, shuru, yanma):
        piliang, changdu, weidu = shuru.size()
        # cha fen duo tou
        c = self.chaxun(shuru).view(piliang, changdu, self.toushu, self.meitou).permute(0, 2, 1, 3)
        j = self.jian(shuru).view(piliang, changdu, self.toushu, self.meitou).permute(0, 2, 3, 1)
        z = self.zhi(shuru).view(piliang, changdu, self.toushu, self.meitou).permute(0, 2, 1, 3)
        # suo fang dian ji
        fenshu = torch.matmul(c / self.meitou ** 0.5, j)
        fenshu = fenshu + (1.0 - yanma[:, None, None, :].to(fenshu.dtype)) * -1e9
        quanzhong = torch.softmax(fenshu, dim=-1)
        jieguo = torch.matmul(quanzhong, z).permute(0, 2, 1, 3).contiguous().view(piliang, changdu, weidu)
        return self.shuchu(jieguo)
