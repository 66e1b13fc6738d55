"""离线语音识别编码器的一层(Transformer,pre-norm)。

输入是下采样之后的 fbank 特征,一个 batch 里的句子长度不同,
右侧用 0 补齐。补齐的帧不能被真实帧看到;补齐帧自己的输出没有意义,
由后面的 CTC 按长度截掉。
"""
import math

import torch
import torch.nn as nn
import torch.nn.functional as F


def make_pad_mask(lengths, max_len):
    """lengths: (B,) -> (B, T),补齐的位置为 True"""
    steps = torch.arange(max_len, device=lengths.device)
    return steps.unsqueeze(0) >= lengths.unsqueeze(1)


class FeedForward(nn.Module):
    def __init__(self, size, hidden, dropout):
        super().__init__()
        self.w1 = nn.Linear(size, hidden)
        self.w2 = nn.Linear(hidden, size)
        self.drop = nn.Dropout(dropout)

    def forward(self, x):
        return self.w2(self.drop(F.silu(self.w1(x))))


class AsrEncoderLayer(nn.Module):
    def __init__(self, size=48, n_head=4, hidden=96, dropout=0.1):
        super().__init__()
        assert size % n_head == 0
        self.n_head = n_head
        self.d_k = size // n_head
        self.linear_q = nn.Linear(size, size)
        self.linear_k = nn.Linear(size, size)
        self.linear_v = nn.Linear(size, size)
        self.linear_out = nn.Linear(size, size)
        self.norm1 = nn.LayerNorm(size)
        self.norm2 = nn.LayerNorm(size)
        self.ffn = FeedForward(size, hidden, dropout)
        self.drop = nn.Dropout(dropout)

    def _heads(self, x):
        b, t, _ = x.shape
        return x.view(b, t, self.n_head, self.d_k).transpose(1, 2)  # (B, h, T, d_k)

    def self_attn(self, x, pad):
        q = self._heads(self.linear_q(x))
        k = self._heads(self.linear_k(x))
        v = self._heads(self.linear_v(x))
        scores = q @ k.transpose(-2, -1) / math.sqrt(self.d_k)
        mask = pad.unsqueeze(1).unsqueeze(3)
        scores = scores.masked_fill(mask, torch.finfo(scores.dtype).min)
        weights = self.drop(torch.softmax(scores, dim=-1))
        y = (weights @ v).transpose(1, 2).flatten(2)
        return self.linear_out(y)

    def forward(self, x, lengths):
        """x: (B, T, size);lengths: (B,) 每句的有效帧数"""
        pad = make_pad_mask(lengths, x.size(1))
        x = x + self.drop(self.self_attn(self.norm1(x), pad))
        x = x + self.drop(self.ffn(self.norm2(x)))
        return x
