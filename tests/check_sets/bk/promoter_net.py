import math
import torch
import torch.nn as nn
import torch.nn.functional as F

# Promoter strength from 5'UTR sequence. Differential attention (Ye et al. 2024)
# cancels the diffuse background that plain heads put on AT-rich stretches.

BASES = {b: i for i, b in enumerate("NACGT")}


def encode(seqs):
    L = max(map(len, seqs))
    return torch.tensor([[BASES[c] for c in s] + [0] * (L - len(s)) for s in seqs])


def lambda_init_fn(depth):
    return 0.8 - 0.6 * math.exp(-0.3 * depth)


class DiffHeads(nn.Module):
    """out_h = norm( (softmax(q1 k1') - lam * softmax(q2 k2')) v ) * (1 - lam_init)

    `n_heads` differential heads, each made of two query/key sub-heads of size
    d = d_model / n_heads / 2 and one value of size 2d. pad: True at padding.
    """

    def __init__(self, d_model, n_heads, depth):
        super().__init__()
        self.n_heads = n_heads
        self.d = d_model // n_heads // 2
        self.q_proj = nn.Linear(d_model, d_model, bias=False)
        self.k_proj = nn.Linear(d_model, d_model, bias=False)
        self.v_proj = nn.Linear(d_model, d_model, bias=False)
        self.out_proj = nn.Linear(d_model, d_model, bias=False)
        self.lambda_init = lambda_init_fn(depth)
        for n in ("q1", "k1", "q2", "k2"):
            self.register_parameter("lambda_" + n, nn.Parameter(torch.randn(self.d) * 0.1))
        self.subln = nn.RMSNorm(2 * self.d, eps=1e-5)

    def forward(self, x, pad=None):
        B, L, _ = x.shape
        H, d = self.n_heads, self.d
        q = self.q_proj(x).view(B, L, 2 * H, d).transpose(1, 2)
        k = self.k_proj(x).view(B, L, 2 * H, d).transpose(1, 2)
        v = self.v_proj(x).view(B, L, H, 2 * d).transpose(1, 2)
        s = (q * d ** -0.5) @ k.transpose(-1, -2)
        if pad is not None:
            s = s.masked_fill(pad[:, None, None, :], torch.finfo(s.dtype).min)
        a = F.softmax(s, dim=-1, dtype=torch.float32).type_as(s).view(B, H, 2, L, L)
        lam = (
            torch.exp((self.lambda_q1 * self.lambda_k1).sum())
            - torch.exp((self.lambda_q2 * self.lambda_k2).sum())
            + self.lambda_init
        )
        a = a[:, :, 0] - lam * a[:, :, 1]
        o = self.subln(a @ v) * (1 - self.lambda_init)
        return self.out_proj(o.transpose(1, 2).reshape(B, L, 2 * H * d))


class PromoterNet(nn.Module):
    def __init__(self, d_model=32, n_heads=2, layers=2):
        super().__init__()
        self.emb = nn.Embedding(5, d_model, padding_idx=0)
        self.conv = nn.Conv1d(d_model, d_model, 7, padding=3)
        self.mix = nn.ModuleList([DiffHeads(d_model, n_heads, i) for i in range(layers)])
        self.ln = nn.ModuleList([nn.LayerNorm(d_model) for _ in range(layers)])
        self.head = nn.Linear(d_model, 1)

    def forward(self, tok):
        pad = tok == 0
        x = self.conv(self.emb(tok).transpose(1, 2)).transpose(1, 2)
        for m, n in zip(self.mix, self.ln):
            x = x + m(n(x), pad)
        w = (~pad).unsqueeze(-1).to(x)
        return self.head((x * w).sum(1) / w.sum(1)).squeeze(-1)
