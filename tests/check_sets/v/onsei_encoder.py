# 音声認識エンコーダ(畳み込みサブサンプリング + 自己注意)
import math

import torch
import torch.nn as nn


class JikoChuui(nn.Module):
    def __init__(self, jigen, heddo, p=0.1):
        super().__init__()
        self.heddo = heddo
        self.d = jigen // heddo
        self.toi = nn.Linear(jigen, jigen)
        self.kagi = nn.Linear(jigen, jigen)
        self.atai = nn.Linear(jigen, jigen)
        self.deguchi = nn.Linear(jigen, jigen)
        self.drop = nn.Dropout(p)

    def fold(self, x):
        b, t, _ = x.shape
        x = x.view(b, t, self.heddo, self.d).transpose(1, 2)
        return x.reshape(b * self.heddo, t, self.d)

    def forward(self, x, yuukou):
        """x: (B, T, jigen)  yuukou: (B, T) True は有効フレーム"""
        b, t, jigen = x.shape
        q, k, v = self.fold(self.toi(x)), self.fold(self.kagi(x)), self.fold(self.atai(x))
        s = torch.bmm(q, k.transpose(1, 2)) / math.sqrt(self.d)
        kakusu = ~yuukou.unsqueeze(1).expand(b, t, t)
        kakusu = kakusu.repeat(self.heddo, 1, 1)
        s = s.masked_fill(kakusu, float("-inf"))
        a = self.drop(torch.softmax(s, dim=2))
        y = torch.bmm(a, v).view(b, self.heddo, t, self.d).transpose(1, 2).reshape(b, t, jigen)
        return self.deguchi(y)


class Encoder(nn.Module):
    def __init__(self, mel=20, jigen=32, heddo=4, sou=2):
        super().__init__()
        self.conv = nn.Conv1d(mel, jigen, 3, stride=2, padding=1)
        self.chuui = nn.ModuleList([JikoChuui(jigen, heddo) for _ in range(sou)])
        self.ff = nn.ModuleList(
            [nn.Sequential(nn.LayerNorm(jigen), nn.Linear(jigen, 64), nn.SiLU(), nn.Linear(64, jigen)) for _ in range(sou)]
        )
        self.norm = nn.ModuleList([nn.LayerNorm(jigen) for _ in range(sou)])

    def forward(self, onsei, nagasa):
        """onsei: (B, T, mel), nagasa: (B,) 各発話のフレーム数"""
        onsei = onsei.clone()
        onsei[torch.arange(onsei.size(1), device=onsei.device)[None] >= nagasa[:, None]] = 0
        x = torch.relu(self.conv(onsei.transpose(1, 2))).transpose(1, 2)
        nagasa = (nagasa + 1) // 2
        yuukou = torch.arange(x.size(1), device=x.device)[None, :] < nagasa[:, None]
        for norm, chuui, ff in zip(self.norm, self.chuui, self.ff):
            x = x + chuui(norm(x), yuukou)
            x = x + 0.5 * ff(x)
        return x * yuukou.unsqueeze(-1), nagasa


if __name__ == "__main__":
    torch.manual_seed(0)
    enc = Encoder().eval()
    y, n = enc(torch.randn(3, 18, 20), torch.tensor([18, 9, 13]))
    print(y.abs().sum((1, 2)), n)
