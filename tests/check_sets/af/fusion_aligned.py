# -*- coding: utf-8 -*-
"""多模态情感分析 (word-aligned CMU-MOSI): 文本 / 语音 / 视觉 三路融合

所有输入都是 (batch, seq, feat)，三种模态已经按词对齐，所以长度相同。
"""
import torch
import torch.nn as nn


class SinPos(nn.Module):
    def __init__(self, d, max_len=200):
        super().__init__()
        pos = torch.arange(max_len).float().unsqueeze(1)
        div = 10000.0 ** (torch.arange(0, d, 2).float() / d)
        pe = torch.zeros(max_len, d)
        pe[:, 0::2] = torch.sin(pos / div)
        pe[:, 1::2] = torch.cos(pos / div)
        self.register_buffer("pe", pe)

    def forward(self, x):
        return x + self.pe[: x.size(1)]


class CrossModalLayer(nn.Module):
    """目标模态 attend 到 源模态"""

    def __init__(self, d, heads, p=0.1):
        super().__init__()
        self.attn = nn.MultiheadAttention(embed_dim=d, num_heads=heads, dropout=p)
        self.ln_q, self.ln_kv, self.ln_ff = nn.LayerNorm(d), nn.LayerNorm(d), nn.LayerNorm(d)
        self.ff = nn.Sequential(nn.Linear(d, 4 * d), nn.ReLU(), nn.Dropout(p), nn.Linear(4 * d, d))
        self.drop = nn.Dropout(p)

    def forward(self, target, source):
        """target, source: (batch, seq, d)"""
        q = self.ln_q(target)
        kv = self.ln_kv(source)
        y, w = self.attn(q, kv, kv)
        x = target + self.drop(y)
        return x + self.drop(self.ff(self.ln_ff(x)))


class CrossModalEncoder(nn.Module):
    def __init__(self, d, heads, layers, p=0.1):
        super().__init__()
        self.pos = SinPos(d)
        self.layers = nn.ModuleList([CrossModalLayer(d, heads, p) for _ in range(layers)])
        self.norm = nn.LayerNorm(d)

    def forward(self, target, source):
        x, s = self.pos(target), self.pos(source)
        for layer in self.layers:
            x = layer(x, s)
        return self.norm(x)


class FusionNet(nn.Module):
    def __init__(self, d_text=300, d_audio=74, d_video=35, d=40, heads=5, layers=2, p=0.1):
        super().__init__()
        self.proj_t = nn.Conv1d(d_text, d, 1, bias=False)
        self.proj_a = nn.Conv1d(d_audio, d, 1, bias=False)
        self.proj_v = nn.Conv1d(d_video, d, 1, bias=False)
        self.t_a = CrossModalEncoder(d, heads, layers, p)
        self.t_v = CrossModalEncoder(d, heads, layers, p)
        self.out = nn.Sequential(nn.Linear(2 * d, d), nn.ReLU(), nn.Dropout(p), nn.Linear(d, 1))

    def forward(self, text, audio, video):
        t = self.proj_t(text.transpose(1, 2)).transpose(1, 2)
        a = self.proj_a(audio.transpose(1, 2)).transpose(1, 2)
        v = self.proj_v(video.transpose(1, 2)).transpose(1, 2)
        h = torch.cat([self.t_a(t, a)[:, -1], self.t_v(t, v)[:, -1]], dim=-1)   # 取最后一个词
        return self.out(h).squeeze(-1)


if __name__ == "__main__":
    net = FusionNet().eval()
    print(net(torch.randn(3, 50, 300), torch.randn(3, 50, 74), torch.randn(3, 50, 35)).shape)
