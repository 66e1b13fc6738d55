"""DeepSeek-V2 的多头潜在注意力 (MLA)，矩阵吸收版本。

缓存里只放潜向量 c_kv (kv_lora_rank) 和共享的旋转键 k_rope (d_rope)。
W_UK 被吸收进查询，W_UV 在加权求和之后再乘，所以不需要还原每个头的 K、V。

    score_ts = ( q_nope_t^T W_UK c_s  +  q_rope_t . k_rope_s ) / sqrt(d_nope + d_rope)
    o_t      = W_UV sum_s softmax_s(score_ts) c_s

旋转位置编码：前一半与后一半配对 (i, i + d_rope/2)，频率 10000^(-2i/d_rope)。
"""
import torch
from torch import nn


def rope(x, pos):
    """x (B, T, ..., d_rope)，pos (T,) 绝对位置"""
    half = x.shape[-1] // 2
    inv = 10000.0 ** (-torch.arange(half, device=x.device, dtype=torch.float32) / half)
    ang = pos.float()[:, None] * inv
    while ang.dim() < x.dim() - 1:
        ang = ang.unsqueeze(1)
    a, b = x[..., :half], x[..., half:]
    return torch.cat([a * ang.cos() - b * ang.sin(), b * ang.cos() + a * ang.sin()], -1)


class MLA(nn.Module):
    """forward(x, cache=None)

    x      (B, T, D) 新的 T 个 token，因果
    cache  None，或上一次返回的 (c_kv (B, P, r), k_rope (B, P, d_rope))，P 为已有长度
    返回   y (B, T, D) 和新的 cache
    """

    def __init__(self, D=32, heads=4, d_nope=8, d_rope=4, d_v=8, r=12):
        super().__init__()
        self.h, self.dn, self.dr = heads, d_nope, d_rope
        self.wq = nn.Linear(D, heads * (d_nope + d_rope), bias=False)
        self.wdkv = nn.Linear(D, r + d_rope, bias=False)
        self.w_uk = nn.Parameter(torch.randn(heads, d_nope, r) / r ** 0.5)
        self.w_uv = nn.Parameter(torch.randn(heads, d_v, r) / r ** 0.5)
        self.wo = nn.Linear(heads * d_v, D, bias=False)
        self.r = r

    def forward(self, x, cache=None):
        B, T, _ = x.shape
        past = 0 if cache is None else cache[0].shape[1]
        pos = torch.arange(past, past + T, device=x.device)

        q = self.wq(x).view(B, T, self.h, self.dn + self.dr)
        q_nope, q_rope = q.split([self.dn, self.dr], dim=-1)
        q_rope = rope(q_rope, pos)
        c, kr = self.wdkv(x).split([self.r, self.dr], dim=-1)
        kr = rope(kr, pos)                        # 写入缓存的是旋转之后的键
        if cache is not None:
            c = torch.cat([cache[0], c], dim=1)
            kr = torch.cat([cache[1], kr], dim=1)

        q_lat = torch.einsum("bthn,hnr->bthr", q_nope, self.w_uk)      # 吸收 W_UK
        s = torch.einsum("bthr,bsr->bhts", q_lat, c)
        s = s + torch.einsum("bthe,bse->bhts", q_rope, kr)
        s = s * (self.dn + self.dr) ** -0.5
        future = torch.arange(past + T, device=x.device)[None, :] > pos[:, None]
        p = s.masked_fill(future, float("-inf")).softmax(dim=-1)
        o = torch.einsum("bhts,bsr->bthr", p, c)
        o = torch.einsum("bthr,hvr->bthv", o, self.w_uv)
        return self.wo(o.flatten(2)), (c, kr)
