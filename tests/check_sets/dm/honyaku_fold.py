"""日英翻訳の練習用 Transformer(エンコーダ側の multi-head attention だけ)。

昔の TensorFlow 実装のように、ヘッドをバッチの次元にまとめてから計算する:
(N, T, C) をヘッドごとの列に分けて (h*N, T, C/h) にし、一度の bmm で全ヘッドを計算し、
最後に元の (N, T, C) に戻す(ヘッド 0 の列、ヘッド 1 の列、... の順)。

    x     (N, T, C)
    pad   (N, T) bool, True = パディング(注目してはいけない)。各文に最低一語はある。
    出力   (N, T, C)、残差接続と LayerNorm の後。

スコアは sqrt(C/h) で割り、キーの方向に softmax をとる。
"""
import torch
import torch.nn as nn


class FoldedAttention(nn.Module):
    def __init__(self, C, h):
        super().__init__()
        self.h = h
        self.wq = nn.Linear(C, C)
        self.wk = nn.Linear(C, C)
        self.wv = nn.Linear(C, C)
        self.ln = nn.LayerNorm(C)

    def forward(self, x, pad):
        N, T, C = x.shape
        q = torch.cat(self.wq(x).chunk(self.h, dim=2), dim=0)      # (h*N, T, C/h)
        k = torch.cat(self.wk(x).chunk(self.h, dim=2), dim=0)
        v = torch.cat(self.wv(x).chunk(self.h, dim=2), dim=0)

        s = torch.bmm(q, k.transpose(1, 2)) / (C // self.h) ** 0.5
        s = s.masked_fill(pad.repeat(self.h, 1)[:, None, :], float("-inf"))
        o = torch.bmm(torch.softmax(s, dim=2), v)

        # (h*N, T, C/h) -> (N, T, C)
        o = o.view(N, self.h, T, C // self.h).transpose(1, 2).reshape(N, T, C)
        return self.ln(x + o)
