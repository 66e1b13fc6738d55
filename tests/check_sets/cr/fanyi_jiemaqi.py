import torch
import torch.nn as nn


class Zhuyili(nn.Module):
    """Bahdanau (additive) attention for a GRU translation decoder, as in Bahdanau et al. 2015."""

    def __init__(self, yincang, bianma, zhongjian):
        super().__init__()
        self.W = nn.Linear(yincang + bianma, zhongjian)
        self.v = nn.Linear(zhongjian, 1, bias=False)

    def forward(self, zhuangtai, shuchu):
        # zhuangtai: (B, yincang)  shuchu: (B, S, bianma)
        S = shuchu.size(1)
        kuozhan = zhuangtai.unsqueeze(1).expand(-1, S, -1)
        nengliang = self.W(torch.cat([kuozhan, shuchu], dim=-1))
        fenshu = self.v(nengliang).squeeze(-1)
        quanzhong = torch.softmax(fenshu, dim=-1)
        shangxiawen = torch.bmm(quanzhong.unsqueeze(1), shuchu).squeeze(1)
        return shangxiawen, quanzhong


class Jiemaqi(nn.Module):
    def __init__(self, cibiao=50, qianru=16, yincang=20, bianma=24):
        super().__init__()
        self.qianru = nn.Embedding(cibiao, qianru)
        self.zhuyili = Zhuyili(yincang, bianma, 18)
        self.gru = nn.GRUCell(qianru + bianma, yincang)
        self.shuchu = nn.Linear(yincang + bianma, cibiao)

    def forward(self, ci, zhuangtai, bianma_shuchu):
        c, q = self.zhuyili(zhuangtai, bianma_shuchu)
        zhuangtai = self.gru(torch.cat([self.qianru(ci), c], -1), zhuangtai)
        return self.shuchu(torch.cat([zhuangtai, c], -1)), zhuangtai, q
