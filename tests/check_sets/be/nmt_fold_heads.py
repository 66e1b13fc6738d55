# -*- coding: utf-8 -*-
# 机器翻译课程作业:编码器部分
# 多头的做法:按最后一维切成 H 份,再沿 batch 维拼接(Kyubyong 的写法)
import torch
import torch.nn as nn


def 长度转掩码(lengths, max_len):
    """返回 (B, L) 的 bool,True 表示有效的词。"""
    return torch.arange(max_len)[None, :] < lengths[:, None]


class MultiHead(nn.Module):
    """
    queries: (B, Lq, D)   keys: (B, Lk, D)
    key_mask: (B, Lk) bool,True = 有效,False = 填充
    输出: (B, Lq, D),含残差与 LayerNorm
    """

    def __init__(self, d_model=32, num_heads=4, dropout=0.1):
        super().__init__()
        self.num_heads = num_heads
        self.wq = nn.Linear(d_model, d_model)
        self.wk = nn.Linear(d_model, d_model)
        self.wv = nn.Linear(d_model, d_model)
        self.drop = nn.Dropout(dropout)
        self.ln = nn.LayerNorm(d_model)

    def forward(self, queries, keys, key_mask):
        H = self.num_heads
        # (H*B, L, D/H)
        q_ = torch.cat(self.wq(queries).chunk(H, dim=-1), dim=0)
        k_ = torch.cat(self.wk(keys).chunk(H, dim=-1), dim=0)
        v_ = torch.cat(self.wv(keys).chunk(H, dim=-1), dim=0)

        # 点积并缩放
        s = torch.bmm(q_, k_.transpose(1, 2)) / (k_.size(-1) ** 0.5)

        # 每个头用同一句子的掩码
        m = key_mask.repeat_interleave(H, dim=0).unsqueeze(1)
        s = s.masked_fill(~m, float("-inf"))

        a = self.drop(torch.softmax(s, dim=-1))
        o = torch.bmm(a, v_)
        # 还原 (B, Lq, D)
        o = torch.cat(o.chunk(H, dim=0), dim=-1)
        return self.ln(o + queries)


class Encoder(nn.Module):
    def __init__(self, vocab, d_model=32, num_heads=4, layers=2, max_len=64):
        super().__init__()
        self.tok = nn.Embedding(vocab, d_model, padding_idx=0)
        self.pos = nn.Embedding(max_len, d_model)
        self.attn = nn.ModuleList(MultiHead(d_model, num_heads) for _ in range(layers))
        self.ffn = nn.ModuleList(
            nn.Sequential(nn.Linear(d_model, 4 * d_model), nn.ReLU(), nn.Linear(4 * d_model, d_model))
            for _ in range(layers)
        )

    def forward(self, ids, lengths):
        L = ids.size(1)
        mask = 长度转掩码(lengths, L)
        x = self.tok(ids) + self.pos(torch.arange(L))
        for a, f in zip(self.attn, self.ffn):
            x = a(x, x, mask)
            x = x + f(x)
        return x


if __name__ == "__main__":
    enc = Encoder(100)
    ids = torch.randint(1, 100, (3, 7))
    print(enc(ids, torch.tensor([7, 5, 3])).shape)
