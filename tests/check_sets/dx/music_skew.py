"""Music Transformer の相対的自己注意 (Huang et al. 2018)。趣味の自動作曲のための実装。

入力 x : (B, L, D)、L <= saidai。出力 : (B, L, D)。
因果的: 時刻 i は j <= i だけを見る。

    ten(i, j) = (q_i . k_j + q_i . E[h, saidai - 1 - (i - j)]) / sqrt(D / atama)

E は頭ごとの学習される表 (atama, saidai, d)。最後の行が距離 0、その一つ前が距離 1、... である。
論文の "skewing" でメモリを節約する。
"""
import torch
import torch.nn as nn


class SoutaiChuui(nn.Module):
    def __init__(self, D, atama, saidai):
        super().__init__()
        self.atama = atama
        self.d = D // atama
        self.saidai = saidai
        self.toi = nn.Linear(D, D)      # 問い (query)
        self.kagi = nn.Linear(D, D)     # 鍵 (key)
        self.atai = nn.Linear(D, D)     # 値 (value)
        self.de = nn.Linear(D, D)
        self.E = nn.Parameter(torch.randn(atama, saidai, self.d) * 0.1)

    def wakeru(self, t):
        return t.view(t.size(0), t.size(1), self.atama, self.d).transpose(1, 2)

    def katamuke(self, qe):
        """(B, H, L, L) 列 = 距離 L-1 .. 0 -> 列 = 鍵の位置 (j <= i のところだけ正しい)"""
        B, H, L, _ = qe.shape
        t = nn.functional.pad(qe, (1, 0))
        t = t.reshape(B, H, L + 1, L)
        return t[:, :, 1:, :]

    def forward(self, x):
        B, L, D = x.shape
        q = self.wakeru(self.toi(x))
        k = self.wakeru(self.kagi(x))
        v = self.wakeru(self.atai(x))
        E = self.E[:, self.saidai - L:]
        soutai = self.katamuke(torch.einsum("bhid,hrd->bhir", q, E))
        ten = (torch.matmul(q, k.transpose(2, 3)) + soutai) * self.d ** -0.5
        mirai = torch.ones(L, L, dtype=torch.bool, device=x.device).triu(1)
        omomi = ten.masked_fill(mirai, -1e9).softmax(-1)
        y = torch.matmul(omomi, v).permute(0, 2, 1, 3).contiguous().view(B, L, D)
        return self.de(y)
