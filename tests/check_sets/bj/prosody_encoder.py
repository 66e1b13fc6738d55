# -*- coding: utf-8 -*-
# 韵律编码器：音素序列 -> 时长 / 音高特征。
# pad: BoolTensor [B, T]，True 表示填充位置，任何查询都不应看到它。
# forward 返回的 maps 用于画对齐图，每一行是一个概率分布（和为 1）。
import torch
import torch.nn as nn
import torch.nn.functional as F


class FFT(nn.Module):
    """FastSpeech 的前馈 Transformer 块。"""

    def __init__(self, d_model, n_head, kernel=3, dropout=0.1):
        super().__init__()
        self.slf = ProsodyAttention(d_model, n_head, dropout)
        self.c1 = nn.Conv1d(d_model, 2 * d_model, kernel, padding=kernel // 2)
        self.c2 = nn.Conv1d(2 * d_model, d_model, 1)
        self.n1 = nn.LayerNorm(d_model)
        self.n2 = nn.LayerNorm(d_model)
        self.drop = nn.Dropout(dropout)

    def forward(self, x, pad=None):
        y, maps = self.slf(x, pad)
        x = self.n1(x + self.drop(y))
        y = self.c2(F.relu(self.c1(x.transpose(1, 2)))).transpose(1, 2)
        x = self.n2(x + self.drop(y))
        if pad is not None:
            x = x.masked_fill(pad.unsqueeze(-1), 0.0)
        return x, maps


class ProsodyAttention(nn.Module):
    """多头自注意力（双向，不带因果掩码）。"""

    def __init__(self, d_model, n_head, dropout=0.1):
        super().__init__()
        assert d_model % n_head == 0
        self.n_head = n_head
        self.d_k = d_model // n_head
        self.w_qs = nn.Linear(d_model, d_model)
        self.w_ks = nn.Linear(d_model, d_model)
        self.w_vs = nn.Linear(d_model, d_model)
        self.fc = nn.Linear(d_model, d_model)
        self.dropout = nn.Dropout(dropout)

    def forward(self, x, pad=None):
        b, t, _ = x.shape
        q = self.w_qs(x).view(b, t, self.n_head, self.d_k).transpose(1, 2)
        k = self.w_ks(x).view(b, t, self.n_head, self.d_k).transpose(1, 2)
        v = self.w_vs(x).view(b, t, self.n_head, self.d_k).transpose(1, 2)
        attn = torch.matmul(q, k.transpose(2, 3)) / self.d_k ** 0.5
        if pad is not None:
            # 扩展到 [B, H, T, T]
            attn = attn.masked_fill(pad.unsqueeze(1).unsqueeze(3), -1e9)
        attn = self.dropout(F.softmax(attn, dim=-1))
        y = torch.matmul(attn, v).transpose(1, 2).reshape(b, t, -1)
        return self.fc(y), attn


class ProsodyEncoder(nn.Module):
    def __init__(self, n_phone=60, d_model=32, n_head=4, layers=2, dropout=0.1):
        super().__init__()
        self.emb = nn.Embedding(n_phone, d_model, padding_idx=0)
        self.stack = nn.ModuleList([FFT(d_model, n_head, dropout=dropout) for _ in range(layers)])
        self.dur = nn.Linear(d_model, 1)
        self.f0 = nn.Linear(d_model, 1)

    def forward(self, phones):
        pad = phones.eq(0)
        x, all_maps = self.emb(phones), []
        for blk in self.stack:
            x, m = blk(x, pad)
            all_maps.append(m)
        return self.dur(x).squeeze(-1), self.f0(x).squeeze(-1), all_maps


def plot_matrix(maps, layer=0, sample=0):
    """取某层某样本各头的平均图，返回 numpy 数组。"""
    return maps[layer][sample].mean(0).detach().cpu().numpy()


if __name__ == "__main__":
    enc = ProsodyEncoder()
    ids = torch.tensor([[4, 8, 15, 16, 0, 0], [23, 42, 7, 9, 3, 1]])
    d, f, m = enc(ids)
    print(d.shape, f.shape, plot_matrix(m).shape)
