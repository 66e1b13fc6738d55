"""kumo_tenki: 雲画像の時系列から天気を予測するための自己注意。

各観測所の時系列 (B, jikan, haba) を受け取り、同じ形で返す。
通常のスケール付き内積注意 (scaled dot-product, マルチヘッド)。因果的ではない。

kesson (B, jikan) bool: True = 欠測。欠測の時刻は誰からも参照されない。
(少なくとも一つの時刻は観測されている)
"""
import torch
from torch import nn


class KumoChuui(nn.Module):
    def __init__(self, haba: int = 32, atama: int = 4, otosu: float = 0.0):
        super().__init__()
        assert haba % atama == 0
        self.atama = atama
        self.d = haba // atama
        self.toi = nn.Linear(haba, haba)
        self.kagi = nn.Linear(haba, haba)
        self.atai = nn.Linear(haba, haba)
        self.deguchi = nn.Linear(haba, haba)
        self.otosu = nn.Dropout(otosu)

    def wakeru(self, t):
        """(B, jikan, haba) -> (B, atama, jikan, d)"""
        return t.reshape(t.size(0), self.atama, t.size(1), self.d)

    def forward(self, x, kesson=None):
        B, n, haba = x.shape
        q = self.wakeru(self.toi(x))
        k = self.wakeru(self.kagi(x))
        v = self.wakeru(self.atai(x))

        ten = torch.matmul(q, k.transpose(-1, -2))
        if kesson is not None:
            ten = ten.masked_fill(~kesson[:, None, None, :], float("-inf"))
        omomi = self.otosu(torch.softmax(ten, dim=-1))

        y = torch.matmul(omomi, v)                      # B, atama, n, d
        y = y.permute(0, 2, 1, 3).reshape(B, n, haba)
        return self.deguchi(y)


class TenkiYohou(nn.Module):
    def __init__(self, nyuuryoku: int = 8, haba: int = 32, atama: int = 4, kurasu: int = 4):
        super().__init__()
        self.ire = nn.Linear(nyuuryoku, haba)
        self.chuui = KumoChuui(haba, atama)
        self.seiki = nn.LayerNorm(haba)
        self.hantei = nn.Linear(haba, kurasu)

    def forward(self, kansoku, kesson=None):
        h = self.ire(kansoku)
        h = self.seiki(h + self.chuui(h, kesson))
        return self.hantei(h[:, -1])
