"""台所 (daidokoro): レシピ推薦の材料ミキサー。

料理人(複数)が棚の材料を味見して、一皿にまとめる。

    鍋   nabe  : (皿 S, 客 N, 味 A)    作りかけの皿(問い合わせ側)
    棚   tana  : (材料 Z, 客 N, 味 A)  棚の材料(読まれる側)
    欠品 kire  : (N, Z) bool, True = 品切れ。使ってはいけない。
                 どの客にも在庫のある材料が一つ以上ある。
    返値       : (S, N, A)

料理人 r ごとに、好み = (鍋 Wn)・(棚 Wt) / sqrt(一人あたりの次元)、
材料の方向の softmax で配合を決め、配合 × (棚 Wa) を足し合わせる。
全員の結果を並べて Wo をかけ、鍋に足す。
"""
import torch
from torch import nn, einsum


class Daidokoro(nn.Module):
    def __init__(self, aji: int = 24, ryorinin: int = 3):
        super().__init__()
        shita = aji // ryorinin                        # 一人あたりの次元
        self.Wn = nn.Parameter(torch.randn(ryorinin, aji, shita) / aji ** 0.5)
        self.Wt = nn.Parameter(torch.randn(ryorinin, aji, shita) / aji ** 0.5)
        self.Wa = nn.Parameter(torch.randn(ryorinin, aji, shita) / aji ** 0.5)
        self.Wo = nn.Parameter(torch.randn(ryorinin, shita, aji) / aji ** 0.5)
        self.karasa = shita ** -0.25                   # 両側に半分ずつ

    def forward(self, nabe, tana, kire=None):
        toi = einsum("sna,rab->rsnb", nabe, self.Wn) * self.karasa
        kagi = einsum("zna,rab->rznb", tana, self.Wt) * self.karasa
        atai = einsum("zna,rab->rznb", tana, self.Wa)
        konomi = einsum("rsnb,rznb->rnsz", toi, kagi)
        if kire is not None:
            konomi = konomi.masked_fill(kire[None, :, None, :], float("-inf"))
        haigo = konomi.softmax(dim=3)
        sara = einsum("rnsz,rznb->rsnb", haigo, atai)
        return nabe + einsum("rsnb,rba->sna", sara, self.Wo)
