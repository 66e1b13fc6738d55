"""带可学习温度的余弦注意力（参考 Swin V2）。

用于遥感图像分类模型的特征编码部分。
"""
import math

import torch
import torch.nn as nn
import torch.nn.functional as F


class CosineAttention(nn.Module):
    """余弦多头自注意力。

    输入 x: (B, N, C)；key_valid: (B, N) bool，True 表示有效位置（每行至少一个有效）。
    相似度 = cos(q, k) * min(exp(logit_scale), 100)，不再除以 sqrt(d)。
    输出 (B, N, C)。
    """

    def __init__(self, dim=32, num_heads=4):
        super().__init__()
        self.num_heads = num_heads
        self.logit_scale = nn.Parameter(torch.log(10 * torch.ones(num_heads, 1, 1)))
        self.qkv = nn.Linear(dim, dim * 3, bias=False)
        self.q_bias = nn.Parameter(torch.zeros(dim))
        self.v_bias = nn.Parameter(torch.zeros(dim))
        self.proj = nn.Linear(dim, dim)

    def forward(self, x, key_valid=None):
        B, N, C = x.shape
        # k 没有偏置，与论文一致
        bias = torch.cat([self.q_bias, torch.zeros_like(self.v_bias), self.v_bias])
        qkv = F.linear(x, self.qkv.weight, bias)
        q, k, v = qkv.reshape(B, N, 3, self.num_heads, -1).permute(2, 0, 3, 1, 4)
        attn = F.normalize(q, dim=-1) @ F.normalize(k, dim=-1).transpose(-2, -1)
        scale = torch.clamp(self.logit_scale, max=math.log(100.0)).exp()
        attn = attn * scale
        if key_valid is not None:
            # 屏蔽无效位置
            attn = attn.masked_fill(key_valid.logical_not()[:, None, None, :], float("-inf"))
        attn = attn.softmax(dim=-1)
        out = (attn @ v).transpose(1, 2).reshape(B, N, C)
        return self.proj(out)
