import torch
import torch.nn as nn
from argparse import Namespace

args = Namespace(dim=32, n_heads=4, q_lora=12, kv_lora=10, nope=6, rope=4, v_dim=7, max_pos=64)


class RMSNorm(nn.Module):
    def __init__(self, n):
        super().__init__()
        self.weight = nn.Parameter(torch.ones(n))

    def forward(self, x):
        return x * torch.rsqrt(x.pow(2).mean(-1, keepdim=True) + 1e-6) * self.weight


def rotate(x, pos):
    # interleaved pairs
    d = x.size(-1)
    f = 10000.0 ** (-torch.arange(0, d, 2, device=x.device, dtype=torch.float32) / d)
    a = pos[:, None].float() * f
    c, s = a.cos().to(x.dtype), a.sin().to(x.dtype)
    x1, x2 = x[..., 0::2], x[..., 1::2]
    return torch.stack((x1 * c - x2 * s, x1 * s + x2 * c), -1).flatten(-2)


class MLA(nn.Module):
    def __init__(self, a=args):
        super().__init__()
        self.a = a
        self.wq_a = nn.Linear(a.dim, a.q_lora, bias=False)
        self.q_norm = RMSNorm(a.q_lora)
        self.wq_b = nn.Linear(a.q_lora, a.n_heads * (a.nope + a.rope), bias=False)
        self.wkv_a = nn.Linear(a.dim, a.kv_lora + a.rope, bias=False)
        self.kv_norm = RMSNorm(a.kv_lora)
        self.wkv_b = nn.Linear(a.kv_lora, a.n_heads * (a.nope + a.v_dim), bias=False)
        self.wo = nn.Linear(a.n_heads * a.v_dim, a.dim, bias=False)
        self.scale = (a.nope + a.rope) ** -0.5

    def forward(self, x, past=None):
        a = self.a
        B, T, _ = x.shape
        c, kr = self.wkv_a(x).split([a.kv_lora, a.rope], -1)
        off = 0 if past is None else past[0].size(1)
        pos = torch.arange(off, off + T, device=x.device)
        c, kr = self.kv_norm(c), rotate(kr, pos)
        if past is not None:
            c, kr = torch.cat([past[0], c], 1), torch.cat([past[1], kr], 1)
        S = c.size(1)
        q = self.wq_b(self.q_norm(self.wq_a(x))).view(B, T, a.n_heads, -1).transpose(1, 2)
        qn, qr = q.split([a.nope, a.rope], -1)
        w = self.wkv_b.weight.view(a.n_heads, a.nope + a.v_dim, a.kv_lora)
        # absorbed form: keys and values stay in the latent space
        qc = torch.einsum("bhtn,hnc->bhtc", qn, w[:, :a.nope])
        s = torch.einsum("bhtc,bsc->bhts", qc, c) + torch.einsum("bhtr,bsr->bhts", rotate(qr, pos), kr)
        mask = torch.ones(T, S, dtype=torch.bool, device=x.device).tril(S - T)
        p = (s * self.scale).masked_fill(~mask, float("-inf")).softmax(-1)
        y = torch.einsum("bhts,bsc,hvc->bthv", p, c, w[:, a.nope:])
        return self.wo(y.flatten(2)), (c, kr)
