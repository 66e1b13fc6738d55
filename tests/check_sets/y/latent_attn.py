# Multi-head latent attention (DeepSeek-V2), decode path with absorbed projections.
import torch
import torch.nn as nn
import torch.nn.functional as F
from types import SimpleNamespace


def default_args(**kw):
    a = SimpleNamespace(dim=48, n_heads=4, q_lora_rank=0, kv_lora_rank=20,
                        qk_nope_head_dim=12, qk_rope_head_dim=8, v_head_dim=10,
                        max_batch=4, max_seq=64, theta=1e4, absorb=True)
    a.__dict__.update(kw)
    return a


def freqs_cis(n, d, theta):
    f = 1.0 / (theta ** (torch.arange(0, d, 2)[: d // 2].float() / d))
    return torch.polar(torch.ones(n, d // 2), torch.outer(torch.arange(n).float(), f))


def apply_rot(x, fc):
    # x (b, s, h, d)
    xc = torch.view_as_complex(x.float().view(*x.shape[:-1], -1, 2))
    return torch.view_as_real(xc * fc.view(1, x.size(1), 1, -1)).flatten(3).to(x.dtype)


class RMS(nn.Module):
    def __init__(self, d, eps=1e-6):
        super().__init__()
        self.weight, self.eps = nn.Parameter(torch.ones(d)), eps

    def forward(self, x):
        return F.rms_norm(x, (x.size(-1),), self.weight, self.eps)


class LatentAttention(nn.Module):
    """x (b,s,dim), start_pos -> (b,s,dim). Keeps the compressed cache in buffers."""

    def __init__(self, args=None):
        super().__init__()
        args = args or default_args()
        self.args = args
        self.h = args.n_heads
        self.r = args.kv_lora_rank
        self.dn, self.dr, self.dv = args.qk_nope_head_dim, args.qk_rope_head_dim, args.v_head_dim
        dq = self.dn + self.dr
        if args.q_lora_rank:
            self.wq_a = nn.Linear(args.dim, args.q_lora_rank, bias=False)
            self.q_norm = RMS(args.q_lora_rank)
            self.wq_b = nn.Linear(args.q_lora_rank, self.h * dq, bias=False)
        else:
            self.wq = nn.Linear(args.dim, self.h * dq, bias=False)
        self.wkv_a = nn.Linear(args.dim, self.r + self.dr, bias=False)
        self.kv_norm = RMS(self.r)
        self.wkv_b = nn.Linear(self.r, self.h * (self.dn + self.dv), bias=False)
        self.wo = nn.Linear(self.h * self.dv, args.dim, bias=False)
        self.scale = dq ** -0.5
        self.register_buffer('kv_cache', torch.zeros(args.max_batch, args.max_seq, self.r), persistent=False)
        self.register_buffer('pe_cache', torch.zeros(args.max_batch, args.max_seq, self.dr), persistent=False)
        self.register_buffer('fc', freqs_cis(args.max_seq, self.dr, args.theta), persistent=False)

    def forward(self, x, start_pos=0):
        b, s, _ = x.shape
        end = start_pos + s
        fc = self.fc[start_pos:end]
        q = self.wq_b(self.q_norm(self.wq_a(x))) if self.args.q_lora_rank else self.wq(x)
        q_n, q_r = q.view(b, s, self.h, -1).split([self.dn, self.dr], -1)
        q_r = apply_rot(q_r, fc)
        c, k_r = self.wkv_a(x).split([self.r, self.dr], -1)
        k_r = apply_rot(k_r.unsqueeze(2), fc).squeeze(2)
        self.kv_cache[:b, start_pos:end] = self.kv_norm(c).detach()
        self.pe_cache[:b, start_pos:end] = k_r.detach()
        C, R = self.kv_cache[:b, :end], self.pe_cache[:b, :end]
        w = self.wkv_b.weight.view(self.h, self.dn + self.dv, self.r)
        if self.args.absorb:
            q_l = torch.einsum('bshd,hdc->bshc', q_n, w[:, :self.dn])
            sc = torch.einsum('bshc,btc->bsht', q_l, C)
        else:
            k_n = torch.einsum('btc,hdc->bthd', C, w[:, :self.dn])
            sc = torch.einsum('bshd,bthd->bsht', q_n, k_n)
        sc = (sc + torch.einsum('bshr,btr->bsht', q_r, R)) * self.scale
        if s > 1:
            m = torch.full((s, end), float('-inf'), device=x.device).triu_(start_pos + 1)
            sc = sc + m[None, :, None, :]
        p = sc.softmax(-1, dtype=torch.float32).type_as(x)
        if self.args.absorb:
            o = torch.einsum('bsht,btc->bshc', p, C)
            o = torch.einsum('bshc,hdc->bshd', o, w[:, -self.dv:])
        else:
            vv = torch.einsum('btc,hdc->bthd', C, w[:, -self.dv:])
            o = torch.einsum('bsht,bthd->bshd', p, vv)
        return self.wo(o.flatten(2))
