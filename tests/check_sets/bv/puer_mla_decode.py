# -*- coding: utf-8 -*-
"""普洱茶仓储问答模型的推理部分：多头潜变量注意力（MLA），解码时使用“吸收”写法。

缓存里只存两样东西：
  * c_kv  [B, T, r]    —— 压缩后的潜变量
  * k_pe  [B, T, dr]   —— 所有头共享的旋转键
这样不必展开每个头的 K、V。旋转编码采用相邻两维一对（interleaved）的排法。
"""
from dataclasses import dataclass

import torch
from torch import nn


@dataclass
class MLAConfig:
    dim: int = 48
    heads: int = 3
    nope_dim: int = 8      # 不带位置的部分
    rope_dim: int = 4      # 带位置的部分
    v_dim: int = 6
    kv_rank: int = 10
    theta: float = 10000.0


def rotate_pairs(x, pos, theta):
    """x: [..., T, d]；(0,1)、(2,3)…… 为一对。pos: [T] 的绝对位置。"""
    d = x.shape[-1]
    freq = theta ** (-torch.arange(0, d, 2, dtype=torch.float64) / d)
    ang = pos.to(torch.float64)[:, None] * freq
    c, s = ang.cos().to(x.dtype), ang.sin().to(x.dtype)
    a, b = x[..., 0::2], x[..., 1::2]
    return torch.stack((a * c - b * s, a * s + b * c), dim=-1).flatten(-2)


class LatentAttention(nn.Module):
    def __init__(self, cfg: MLAConfig):
        super().__init__()
        self.cfg = cfg
        H = cfg.heads
        self.wq = nn.Linear(cfg.dim, H * (cfg.nope_dim + cfg.rope_dim), bias=False)
        self.wkv_a = nn.Linear(cfg.dim, cfg.kv_rank + cfg.rope_dim, bias=False)
        self.kv_norm = nn.RMSNorm(cfg.kv_rank, eps=1e-6)
        self.wkv_b = nn.Linear(cfg.kv_rank, H * (cfg.nope_dim + cfg.v_dim), bias=False)
        self.wo = nn.Linear(H * cfg.v_dim, cfg.dim, bias=False)
        # 注意：缩放用的是查询的总维度（nope + rope），而不是潜变量的秩
        self.scale = (cfg.nope_dim + cfg.rope_dim) ** -0.5
        self.reset()

    def reset(self):
        self.c_kv = None
        self.k_pe = None

    def forward(self, x):
        """x: [B, t, dim]，可以是整段提示，也可以是单个新词；因果。"""
        cfg = self.cfg
        B, t, _ = x.shape
        past = 0 if self.c_kv is None else self.c_kv.shape[1]
        pos = torch.arange(past, past + t)

        q = self.wq(x).view(B, t, cfg.heads, -1).transpose(1, 2)
        q_nope, q_pe = q.split([cfg.nope_dim, cfg.rope_dim], dim=-1)
        q_pe = rotate_pairs(q_pe, pos, cfg.theta)

        c, k_pe = self.wkv_a(x).split([cfg.kv_rank, cfg.rope_dim], dim=-1)
        c, k_pe = self.kv_norm(c), rotate_pairs(k_pe, pos, cfg.theta)
        if past:
            c = torch.cat([self.c_kv, c], dim=1)
            k_pe = torch.cat([self.k_pe, k_pe], dim=1)
        self.c_kv, self.k_pe = c, k_pe

        w = self.wkv_b.weight.view(cfg.heads, cfg.nope_dim + cfg.v_dim, cfg.kv_rank)
        w_uk, w_uv = w[:, : cfg.nope_dim], w[:, cfg.nope_dim :]
        q_lat = torch.einsum("bhtn,hnr->bhtr", q_nope, w_uk)        # 吸收 W_uk
        s = torch.einsum("bhtr,bsr->bhts", q_lat, c)
        s = s + torch.einsum("bhtp,bsp->bhts", q_pe, k_pe)
        s = s * self.scale
        S = c.shape[1]
        hide = torch.arange(S)[None, :] > pos[:, None]
        p = s.masked_fill(hide, float("-inf")).softmax(dim=-1)
        lat = torch.einsum("bhts,bsr->bhtr", p, c)
        y = torch.einsum("bhtr,hvr->bthv", lat, w_uv)               # 再展开到 V
        return self.wo(y.reshape(B, t, -1))


if __name__ == "__main__":
    m = LatentAttention(MLAConfig())
    print(m(torch.randn(1, 5, 48)).shape, m(torch.randn(1, 1, 48)).shape)
