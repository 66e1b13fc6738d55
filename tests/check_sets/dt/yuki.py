# coding: utf-8
"""雪の結晶。 しずかな注意(softmax に 1 を足したもの)。

a, i, u : それぞれ (B, H, n, d), (B, H, m, d), (B, H, m, e) の配列
e       : (B, m) の真偽値。 True の列は「見えない」(使わない)。

    w_jk = exp(s_jk) / (1 + sum_l exp(s_jl)),   s = a i^T / sqrt(d)
    o_j  = sum_k w_jk u_k

分母に 1 があるので行の和は 1 より小さくてよい (quiet attention)。 すべての列が見えない行は
ちょうどゼロになる。 (English: softmax with an extra zero logit, i.e. "off by one" softmax, on
purpose. Masked columns count neither in the numerator nor in the denominator.)
"""
import torch


def o(a, i, u, e=None):
    ka = torch.einsum("...nd,...md->...nm", a, i) / a.size(-1) ** 0.5
    if e is not None:
        ka = ka.masked_fill(e[:, None, None, :], float("-inf"))
    # 1 = exp(0) なので、最大値は 0 以上にする
    ki = ka.amax(-1, keepdim=True).clamp(min=0)
    ku = torch.exp(ka - ki)
    ke = torch.exp(-ki) + ku.sum(-1, keepdim=True)
    ko = ku / ke
    if e is not None:
        u = u.masked_fill(e[:, None, :, None], 0)
    return torch.einsum("...nm,...me->...ne", ko, u)


class Yuki(torch.nn.Module):
    """入力 (B, n, c)、 出力 (B, n, c)"""

    def __init__(self, c=24, h=3):
        super().__init__()
        self.h = h
        self.kesshou = torch.nn.Linear(c, 3 * c)
        self.shimo = torch.nn.Linear(c, c)

    def forward(self, x, e=None):
        B, n, c = x.shape
        a, i, u = self.kesshou(x).view(B, n, 3, self.h, c // self.h).permute(2, 0, 3, 1, 4)
        return self.shimo(o(a, i, u, e).transpose(1, 2).reshape(B, n, c))
