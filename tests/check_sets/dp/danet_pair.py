"""双注意力分割头 (DANet): 位置注意力 + 通道注意力, 两路相加.

Dual attention head for segmentation, following the authors' published code.

位置 (position):  B = wb(x), C = wc(x), D = wd(x)
    S[i, j] = softmax_j(B_i . C_j),  out_i = alpha * sum_j S[i, j] D_j + x_i
    没有 1/sqrt(d) (no scaling, as in the paper)
通道 (channel):   E[c, c'] = x_c . x_c' over all pixels (no projections)
    the authors use the *reversed* affinity: X[c, c'] = softmax_c'(max_c' E - E)
    out_c = beta * sum_c' X[c, c'] x_c' + x_c

``DualHead(ch, red)``: x (B, ch, H, W) -> (B, ch, H, W); alpha, beta are scalars
that start at 0 and are learned.
"""
import torch
import torch.nn as nn


class DualHead(nn.Module):
    def __init__(self, ch, red=8):
        super().__init__()
        self.wb = nn.Conv2d(ch, ch // red, 1)
        self.wc = nn.Conv2d(ch, ch // red, 1)
        self.wd = nn.Conv2d(ch, ch, 1)
        self.alpha = nn.Parameter(torch.zeros(1))
        self.beta = nn.Parameter(torch.zeros(1))

    def position(self, x):
        b, c, h, w = x.shape
        proj_query = self.wb(x).view(b, -1, h * w).permute(0, 2, 1)
        proj_key = self.wc(x).view(b, -1, h * w)
        attention = torch.softmax(torch.bmm(proj_query, proj_key), dim=-1)
        proj_value = self.wd(x).view(b, -1, h * w)
        out = torch.bmm(proj_value, attention.permute(0, 2, 1))
        return self.alpha * out.view(b, c, h, w) + x

    def channel(self, x):
        b, c, h, w = x.shape
        flat = x.view(b, c, -1)
        energy = torch.bmm(flat, flat.permute(0, 2, 1))
        # 减去最大值: 反转亲和度
        energy_new = torch.max(energy, -1, keepdim=True)[0].expand_as(energy) - energy
        attention = torch.softmax(energy_new, dim=-1)
        out = torch.bmm(attention, flat)
        return self.beta * out.view(b, c, h, w) + x

    def forward(self, x):
        return self.position(x) + self.channel(x)
