"""Multi-head latent attention (DeepSeek-V2 style), training form without weight absorption."""
import torch
from torch import nn
import torch.nn.functional as F


class ModelArgs:
    def __init__(self, dim=64, n_heads=4, q_lora_rank=24, kv_lora_rank=16, qk_nope_head_dim=12,
                 qk_rope_head_dim=8, v_head_dim=10, rope_theta=10000.0, norm_eps=1e-6):
        self.dim = dim
        self.n_heads = n_heads
        self.q_lora_rank = q_lora_rank
        self.kv_lora_rank = kv_lora_rank
        self.qk_nope_head_dim = qk_nope_head_dim
        self.qk_rope_head_dim = qk_rope_head_dim
        self.v_head_dim = v_head_dim
        self.rope_theta = rope_theta
        self.norm_eps = norm_eps


class RMSNorm(nn.Module):
    def __init__(self, d, eps):
        super().__init__()
        self.w, self.eps = nn.Parameter(torch.ones(d)), eps

    def forward(self, x):
        return x * torch.rsqrt(x.square().mean(-1, keepdim=True) + self.eps) * self.w


def rope(x, start, theta):
    # x: (b, t, h, d), pairs (0,1), (2,3), ...
    b, t, h, d = x.shape
    inv = theta ** (-torch.arange(0, d, 2, device=x.device, dtype=torch.float32) / d)
    ang = torch.outer(torch.arange(start, start + t, device=x.device, dtype=torch.float32), inv)[None, :, None]
    c, s = ang.cos().to(x.dtype), ang.sin().to(x.dtype)
    a, bb = x[..., 0::2], x[..., 1::2]
    return torch.stack((a * c - bb * s, a * s + bb * c), -1).flatten(-2)


class MLA(nn.Module):
    def __init__(self, args: ModelArgs):
        super().__init__()
        self.a = args
        self.qk_head_dim = args.qk_nope_head_dim + args.qk_rope_head_dim
        self.wq_a = nn.Linear(args.dim, args.q_lora_rank, bias=False)
        self.q_norm = RMSNorm(args.q_lora_rank, args.norm_eps)
        self.wq_b = nn.Linear(args.q_lora_rank, args.n_heads * self.qk_head_dim, bias=False)
        self.wkv_a = nn.Linear(args.dim, args.kv_lora_rank + args.qk_rope_head_dim, bias=False)
        self.kv_norm = RMSNorm(args.kv_lora_rank, args.norm_eps)
        self.wkv_b = nn.Linear(args.kv_lora_rank, args.n_heads * (args.qk_nope_head_dim + args.v_head_dim), bias=False)
        self.wo = nn.Linear(args.n_heads * args.v_head_dim, args.dim, bias=False)
        self.softmax_scale = self.qk_head_dim ** -0.5

    def forward(self, x, cache=None):
        """cache: (latents (b, s, kv_lora_rank), rope keys (b, s, rope_dim)) of earlier tokens, or None"""
        a = self.a
        b, t, _ = x.shape
        past = 0 if cache is None else cache[0].shape[1]
        q = self.wq_b(self.q_norm(self.wq_a(x))).view(b, t, a.n_heads, self.qk_head_dim)
        q_nope, q_pe = q.split([a.qk_nope_head_dim, a.qk_rope_head_dim], -1)
        q = torch.cat((q_nope, rope(q_pe, past, a.rope_theta)), -1)

        lat, k_pe = self.wkv_a(x).split([a.kv_lora_rank, a.qk_rope_head_dim], -1)
        k_pe = rope(k_pe.unsqueeze(2), past, a.rope_theta).squeeze(2)
        lat = self.kv_norm(lat)
        if cache is not None:
            lat, k_pe = torch.cat((cache[0], lat), 1), torch.cat((cache[1], k_pe), 1)
        s = lat.shape[1]
        k_nope, v = self.wkv_b(lat).view(b, s, a.n_heads, -1).split([a.qk_nope_head_dim, a.v_head_dim], -1)
        k = torch.cat((k_nope, k_pe.unsqueeze(2).expand(-1, -1, a.n_heads, -1)), -1)

        sc = torch.einsum("bthd,bshd->bhts", q, k) * self.softmax_scale
        seen = torch.ones(t, s, dtype=torch.bool, device=x.device).tril(s - t)
        p = F.softmax(sc.masked_fill(~seen, float("-inf")), dim=-1)
        o = torch.einsum("bhts,bshd->bthd", p, v).reshape(b, t, -1)
        return self.wo(o), (lat, k_pe)
