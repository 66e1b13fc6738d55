"""
音声認識エンコーダ層 (Speech recognition encoder layer)

入力:
    xs       : (B, T, D) サブサンプリング後の音響特徴
    xs_lens  : (B,)      各発話の有効フレーム数 (1 <= len <= T)
出力:
    (B, T, D)            有効フレームより後ろの値は使わないこと

自己注意は発話の有効フレームだけを見る。ドロップアウトは学習時 (model.train()) のみ有効で、
model.eval() では何度呼んでも同じ結果になる。
"""
import torch
import torch.nn as nn
import torch.nn.functional as F


class EncoderLayer(nn.Module):
    def __init__(self, size, n_head, linear_units, dropout_rate=0.1, attention_dropout_rate=0.1):
        super().__init__()
        assert size % n_head == 0
        self.h, self.d_k = n_head, size // n_head
        self.att_drop = attention_dropout_rate
        self.linear_q = nn.Linear(size, size)
        self.linear_k = nn.Linear(size, size)
        self.linear_v = nn.Linear(size, size)
        self.linear_out = nn.Linear(size, size)
        self.feed_forward = nn.Sequential(
            nn.Linear(size, linear_units), nn.SiLU(), nn.Dropout(dropout_rate), nn.Linear(linear_units, size))
        self.norm1 = nn.LayerNorm(size)
        self.norm2 = nn.LayerNorm(size)
        self.dropout = nn.Dropout(dropout_rate)

    def attention(self, x, mask):
        B, T, D = x.shape
        q = self.linear_q(x).view(B, T, self.h, self.d_k).transpose(1, 2)
        k = self.linear_k(x).view(B, T, self.h, self.d_k).transpose(1, 2)
        v = self.linear_v(x).view(B, T, self.h, self.d_k).transpose(1, 2)
        y = F.scaled_dot_product_attention(q, k, v, attn_mask=mask, dropout_p=self.att_drop)
        return self.linear_out(y.transpose(1, 2).reshape(B, T, D))

    def forward(self, xs, xs_lens):
        frames = torch.arange(xs.size(1), device=xs.device)
        mask = (frames[None, :] < xs_lens[:, None])[:, None, None, :]   # True = 有効
        xs = xs + self.dropout(self.attention(self.norm1(xs), mask))
        return xs + self.dropout(self.feed_forward(self.norm2(xs)))
