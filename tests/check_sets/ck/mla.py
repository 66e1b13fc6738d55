"""Multi-head Latent Attention of DeepSeek-V2, the plain ("naive") form without weight absorption."""
import torch
import torch.nn as nn


class RMSNorm(nn.Module):
    def __init__(self, dim, eps=1e-6):
        super().__init__()
        self.weight = nn.Parameter(torch.ones(dim))
        self.eps = eps

    def forward(self, x):
        return x * torch.rsqrt(x.pow(2).mean(-1, keepdim=True) + self.eps) * self.weight


def apply_rotary_emb(x, freqs_cis):
    """x (B, T, H, d), neighbouring channels form the complex numbers"""
    xc = torch.view_as_complex(x.float().reshape(*x.shape[:-1], -1, 2))
    return torch.view_as_real(xc * freqs_cis[None, :, None, :]).flatten(3).type_as(x)


class MultiHeadLatentAttention(nn.Module):
    """
    Causal. Keys and values of all heads are expanded from one latent of kv_lora_rank
    channels per token; position goes through a separate rotary key that all heads share.
    """

    def __init__(self, dim=64, n_heads=4, q_lora_rank=24, kv_lora_rank=16,
                 qk_nope_head_dim=12, qk_rope_head_dim=8, v_head_dim=10):
        super().__init__()
        self.n_heads = n_heads
        self.nope, self.rope, self.vd = qk_nope_head_dim, qk_rope_head_dim, v_head_dim
        self.rank = kv_lora_rank
        self.wq_a = nn.Linear(dim, q_lora_rank, bias=False)
        self.q_norm = RMSNorm(q_lora_rank)
        self.wq_b = nn.Linear(q_lora_rank, n_heads * (self.nope + self.rope), bias=False)
        self.wkv_a = nn.Linear(dim, kv_lora_rank + self.rope, bias=False)
        self.kv_norm = RMSNorm(kv_lora_rank)
        self.wkv_b = nn.Linear(kv_lora_rank, n_heads * (self.nope + self.vd), bias=False)
        self.wo = nn.Linear(n_heads * self.vd, dim, bias=False)
        self.softmax_scale = (self.nope + self.rope) ** -0.5

    def freqs(self, T, device):
        inv = 1.0 / 10000.0 ** (torch.arange(0, self.rope, 2, device=device).float() / self.rope)
        ang = torch.outer(torch.arange(T, device=device).float(), inv)
        return torch.polar(torch.ones_like(ang), ang)

    def forward(self, x):
        B, T, _ = x.shape
        H = self.n_heads
        fc = self.freqs(T, x.device)

        q = self.wq_b(self.q_norm(self.wq_a(x))).view(B, T, H, self.nope + self.rope)
        q_nope, q_pe = q.split([self.nope, self.rope], dim=-1)
        q_pe = apply_rotary_emb(q_pe, fc)

        c_kv, k_pe = self.wkv_a(x).split([self.rank, self.rope], dim=-1)
        k_pe = apply_rotary_emb(k_pe.unsqueeze(2), fc)
        kv = self.wkv_b(self.kv_norm(c_kv)).view(B, T, H, self.nope + self.vd)
        k_nope, v = kv.split([self.nope, self.vd], dim=-1)

        q = torch.cat([q_nope, q_pe], dim=-1)
        k = torch.cat([k_nope, k_pe.expand(-1, -1, H, -1)], dim=-1)
        scores = torch.einsum("bshd,bthd->bsht", q, k) * self.softmax_scale
        mask = torch.full((T, T), float("-inf"), device=x.device).triu_(1)
        scores = scores + mask[None, :, None, :]
        scores = scores.softmax(dim=-1, dtype=torch.float32).type_as(x)
        y = torch.einsum("bsht,bthd->bshd", scores, v)
        return self.wo(y.flatten(2))
