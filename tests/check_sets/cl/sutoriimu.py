"""ストリーミング音声認識用の自己注意。音声は塊(chunk)ごとに届く。"""
import torch
from torch import nn


class Chuui(nn.Module):
    """因果的な自己注意。

    kakera (B, n, D) は新しい塊、kioku はこれまでの (kagi, atai)。塊の i 番目のフレームは、
    過去の全フレームと、塊の中の i 番目までのフレームを見る。未来は見ない。
    """

    def __init__(self, D=24, atama=2):
        super().__init__()
        self.atama = atama
        self.toi = nn.Linear(D, D)
        self.kagi = nn.Linear(D, D)
        self.atai = nn.Linear(D, D)
        self.deguchi = nn.Linear(D, D)

    def wakeru(self, x):
        B, n, D = x.shape
        return x.view(B, n, self.atama, D // self.atama).transpose(1, 2)

    def forward(self, kakera, kioku=None):
        B, n, D = kakera.shape
        q = self.wakeru(self.toi(kakera))
        k = self.wakeru(self.kagi(kakera))
        v = self.wakeru(self.atai(kakera))
        if kioku is not None:
            k = torch.cat([kioku[0], k], dim=2)
            v = torch.cat([kioku[1], v], dim=2)
        m = k.size(2)
        tensuu = q @ k.transpose(2, 3) / (D // self.atama) ** 0.5
        mieru = torch.ones(n, m, dtype=torch.bool, device=q.device).tril()
        tensuu = tensuu.masked_fill(~mieru, float("-inf"))
        y = (tensuu.softmax(dim=3) @ v).transpose(1, 2).reshape(B, n, D)
        return self.deguchi(y), (k, v)


class Ninshiki(nn.Module):
    """音素のロジットと新しい記憶を返す。"""

    def __init__(self, mel=20, D=24, onso=11):
        super().__init__()
        self.iriguchi = nn.Linear(mel, D)
        self.seiki = nn.LayerNorm(D)
        self.chuui = Chuui(D)
        self.onso = nn.Linear(D, onso)

    def forward(self, mel, kioku=None):
        h = self.iriguchi(mel)
        y, kioku = self.chuui(self.seiki(h), kioku)
        return self.onso(h + y), kioku
