"""交差注意 (cross-attention) のノート。

デコーダの各単語が query、エンコーダの各単語が key と value になる。
ヘッドはバッチの次元にたたんで、torch.bmm 一回で計算する。
"""
import torch
import torch.nn as nn


class KousaChuui(nn.Module):
    """マルチヘッド交差注意。

    y      (B, T, dim)  デコーダ側 (query)
    memory (B, S, dim_m) エンコーダ側 (key, value)
    mushi  (B, S) bool  True = 無視する (パディング)。各文に False が一つ以上ある。
    戻り値 (出力 (B, T, dim), ヘッド平均の重み (B, T, S))
    各ヘッドは softmax(q k^T / sqrt(dim / heads)) v。
    """

    def __init__(self, dim, dim_m, heads):
        super().__init__()
        assert dim % heads == 0
        self.heads = heads
        self.to_q = nn.Linear(dim, dim)
        self.to_k = nn.Linear(dim_m, dim)
        self.to_v = nn.Linear(dim_m, dim)
        self.to_out = nn.Linear(dim, dim)

    def tatamu(self, x):
        """(B, L, dim) -> (B * heads, L, d)  サンプルごとに全ヘッドが並ぶ"""
        B, L, dim = x.shape
        d = dim // self.heads
        return x.view(B, L, self.heads, d).transpose(1, 2).reshape(B * self.heads, L, d)

    def forward(self, y, memory, mushi):
        B, T, dim = y.shape
        S = memory.shape[1]
        q = self.tatamu(self.to_q(y))
        k = self.tatamu(self.to_k(memory))
        v = self.tatamu(self.to_v(memory))

        # 足すマスク: 0 か -inf。たたんだ順に合わせて各サンプルを heads 回ずつ
        tasu = torch.zeros(B, 1, S, dtype=y.dtype, device=y.device)
        tasu = tasu.masked_fill(mushi[:, None], float("-inf"))
        tasu = tasu.repeat_interleave(self.heads, dim=0)

        score = torch.baddbmm(tasu, q, k.mT, alpha=q.shape[-1] ** -0.5)
        omomi = score.softmax(dim=2)

        out = torch.bmm(omomi, v).view(B, self.heads, T, -1)
        out = out.transpose(1, 2).reshape(B, T, dim)
        return self.to_out(out), omomi.view(B, self.heads, T, S).mean(dim=1)
