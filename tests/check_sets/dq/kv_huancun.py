"""大模型推理笔记（三）：带 RoPE 的 KV 缓存。

生成时每次只送入新词，旧词的 k、v 从缓存里取。要求：分几次送入和一次送入，
得到的结果完全相同。
"""
import torch
import torch.nn as nn


def xuanzhuan(x, weizhi, base=10000.0):
    """对 x (B, H, T, d) 按位置 weizhi (T,) 旋转，通道 i 与 i + d/2 配对。"""
    ban = x.shape[-1] // 2
    pinlv = base ** (-torch.arange(ban, device=x.device) / ban)
    jiao = weizhi[:, None] * pinlv
    c, s = jiao.cos(), jiao.sin()
    a, b = x[..., :ban], x[..., ban:]
    return torch.cat((a * c - b * s, a * s + b * c), dim=-1)


class HuancunZhuyi(nn.Module):
    """因果自注意力 + 缓存。

    x       (B, T, D)：接在缓存后面的 T 个新词
    huancun None 或上一次返回的 (k, v)，形状 (B, H, P, d)，k 已旋转过，P 为已读词数
    返回    (y (B, T, D), 新缓存)。新词 t 在全文中的位置是 P + t，只能看位置 <= P + t 的词。
            每个头：softmax(q k^T / sqrt(d)) v，q、k 按各自在全文中的位置旋转。
    """

    def __init__(self, D, H):
        super().__init__()
        self.H = H
        self.q = nn.Linear(D, D, bias=False)
        self.k = nn.Linear(D, D, bias=False)
        self.v = nn.Linear(D, D, bias=False)
        self.o = nn.Linear(D, D, bias=False)

    def forward(self, x, huancun=None):
        B, T, D = x.shape
        q, k, v = (f(x).view(B, T, self.H, -1).transpose(1, 2)
                   for f in (self.q, self.k, self.v))

        weizhi = torch.arange(T, device=x.device)
        q, k = xuanzhuan(q, weizhi), xuanzhuan(k, weizhi)

        P = 0
        if huancun is not None:
            P = huancun[0].shape[2]
            k = torch.cat((huancun[0], k), dim=2)
            v = torch.cat((huancun[1], v), dim=2)

        fen = q @ k.transpose(2, 3) / q.shape[-1] ** 0.5
        weilai = torch.ones(T, P + T, dtype=torch.bool, device=x.device).triu(P + 1)
        fen = fen.masked_fill(weilai, float("-inf"))
        y = fen.softmax(-1) @ v
        return self.o(y.transpose(1, 2).reshape(B, T, D)), (k, v)
