# -*- coding: utf-8 -*-
# 语音识别编码器:多头自注意力(Conformer 的一部分)
import torch
import torch.nn as nn


def 长度转掩码(lengths, max_len):
    """返回 (B, T) 布尔掩码,True 表示填充帧(不参与注意力)"""
    return torch.arange(max_len, device=lengths.device)[None, :] >= lengths[:, None]


class ScaledDot(nn.Module):
    """q, k, v: (B*H, T, d);mask: (B*H, 1, T),True 的位置被屏蔽"""

    def __init__(self, d):
        super().__init__()
        self.temperature = d ** 0.5
        self.softmax = nn.Softmax(dim=2)

    def forward(self, q, k, v, mask=None):
        attn = torch.bmm(q, k.transpose(1, 2)) / self.temperature
        if mask is not None:
            attn = attn.masked_fill(mask, float('-inf'))
        attn = self.softmax(attn)
        return torch.bmm(attn, v), attn


class MultiHeadSelfAttention(nn.Module):
    """
    输入 x: (B, T, C),lengths: (B,) 每条语音的有效帧数
    输出 (B, T, C) 以及注意力权重 (B, H, T, T)
    填充帧作为 key 时权重为 0
    """

    def __init__(self, n_head, d_model):
        super().__init__()
        assert d_model % n_head == 0
        self.n_head = n_head
        self.d_k = d_model // n_head
        self.w_qs = nn.Linear(d_model, d_model)
        self.w_ks = nn.Linear(d_model, d_model)
        self.w_vs = nn.Linear(d_model, d_model)
        self.attention = ScaledDot(self.d_k)
        self.fc = nn.Linear(d_model, d_model)

    def _fold(self, x):
        b, t, _ = x.size()
        x = x.view(b, t, self.n_head, self.d_k).transpose(1, 2)
        return x.reshape(b * self.n_head, t, self.d_k)

    def forward(self, x, lengths=None):
        b, t, c = x.size()
        q, k, v = self._fold(self.w_qs(x)), self._fold(self.w_ks(x)), self._fold(self.w_vs(x))
        mask = None
        if lengths is not None:
            mask = 长度转掩码(lengths, t).unsqueeze(1)      # (B, 1, T)
            mask = mask.repeat(self.n_head, 1, 1)          # 每个头一份
        out, attn = self.attention(q, k, v, mask)
        out = out.view(b, self.n_head, t, self.d_k).transpose(1, 2).reshape(b, t, c)
        return self.fc(out), attn.view(b, self.n_head, t, t)


class ConvModule(nn.Module):
    def __init__(self, c, kernel=15):
        super().__init__()
        self.pw1 = nn.Conv1d(c, 2 * c, 1)
        self.dw = nn.Conv1d(c, c, kernel, padding=kernel // 2, groups=c)
        self.bn = nn.BatchNorm1d(c)
        self.pw2 = nn.Conv1d(c, c, 1)

    def forward(self, x):
        y = nn.functional.glu(self.pw1(x.transpose(1, 2)), dim=1)
        return self.pw2(nn.functional.silu(self.bn(self.dw(y)))).transpose(1, 2)


class EncoderLayer(nn.Module):
    def __init__(self, c=32, n_head=2):
        super().__init__()
        self.ln1, self.ln2 = nn.LayerNorm(c), nn.LayerNorm(c)
        self.mhsa = MultiHeadSelfAttention(n_head, c)
        self.conv = ConvModule(c)

    def forward(self, x, lengths):
        x = x + self.mhsa(self.ln1(x), lengths)[0]
        return x + self.conv(self.ln2(x))
