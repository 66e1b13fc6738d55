"""膝外骨格の歩行位相推定。

足底圧センサは接地の瞬間に共通ノイズが乗る。二つの注意マップの差を取って
共通成分を打ち消す(差分注意)。系列は固定長の窓で、窓全体を見てよい(因果ではない)。
"""
import math

import torch
import torch.nn as nn
import torch.nn.functional as F

CH = {"heel": 0, "toe": 1, "shank_gyro": 2, "thigh_gyro": 3, "knee_enc": 4}


class Lambda(nn.Module):
    """λ = exp(λq1·λk1) − exp(λq2·λk2) + λ_init"""

    def __init__(self, d, init):
        super().__init__()
        self.init = init
        self.q1, self.k1, self.q2, self.k2 = (nn.Parameter(0.1 * torch.randn(d)) for _ in range(4))

    def forward(self):
        return torch.exp(self.q1 @ self.k1) - torch.exp(self.q2 @ self.k2) + self.init


class HeadNorm(nn.Module):
    """ヘッドごとの RMS 正規化(重みなし)"""

    def forward(self, x):
        return x * torch.rsqrt((x * x).mean(-1, keepdim=True) + 1e-5)


class DiffGait(nn.Module):
    """差分注意。層番号 depth は 1 から数える。

    q と k は 2*H 個の小ヘッド(幅 d)、v は H 個のヘッド(幅 2d)。
    小ヘッド 2h と 2h+1 がヘッド h の組になる。
    """

    def __init__(self, dim, heads, depth):
        super().__init__()
        self.H = heads
        self.d = dim // heads // 2
        self.wq = nn.Linear(dim, dim, bias=False)
        self.wk = nn.Linear(dim, dim, bias=False)
        self.wv = nn.Linear(dim, dim, bias=False)
        self.wo = nn.Linear(dim, dim, bias=False)
        self.lam_init = 0.8 - 0.6 * math.exp(-0.3 * (depth - 1))
        self.lam = Lambda(self.d, self.lam_init)
        self.norm = HeadNorm()

    def forward(self, x):
        B, T, _ = x.shape
        q = self.wq(x).view(B, T, self.H, 2, self.d)
        k = self.wk(x).view(B, T, self.H, 2, self.d)
        v = self.wv(x).view(B, T, self.H, 2 * self.d).transpose(1, 2)
        s = torch.einsum("bthpd,bshpd->bhpts", q, k) / math.sqrt(self.d)
        a = F.softmax(s, dim=-1)
        a = a[:, :, 0] - self.lam() * a[:, :, 1]         # 行の和は 1−λ、負の値も出る
        o = self.norm(a @ v) * (1.0 - self.lam_init)
        return self.wo(o.transpose(1, 2).reshape(B, T, -1))


class PhaseHead(nn.Module):
    """位相を (cos, sin) で出す。0 と 2π の不連続を避けるため。"""

    def __init__(self, dim):
        super().__init__()
        self.fc = nn.Linear(dim, 2)

    def forward(self, h):
        return F.normalize(self.fc(h), dim=-1)


class GaitPhase(nn.Module):
    def __init__(self, dim=32, heads=2, layers=2):
        super().__init__()
        self.inp = nn.Conv1d(len(CH), dim, 5, padding=2)
        self.blocks = nn.ModuleList([DiffGait(dim, heads, i + 1) for i in range(layers)])
        self.lns = nn.ModuleList([nn.LayerNorm(dim) for _ in range(layers)])
        self.head = PhaseHead(dim)

    def forward(self, sig):
        """sig [B, 5, T] → [B, T, 2]"""
        h = self.inp(sig).transpose(1, 2)
        for ln, blk in zip(self.lns, self.blocks):
            h = h + blk(ln(h))
        return self.head(h)


if __name__ == "__main__":
    out = GaitPhase()(torch.randn(2, 5, 20))
    print(torch.atan2(out[..., 1], out[..., 0])[0])
