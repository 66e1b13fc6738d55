import torch
import torch.nn as nn


class TalkingEncoderBlock(nn.Module):
    # Shazeer et al. 2020: heads exchange logits before, and probabilities after the softmax.
    def __init__(self, d=36, h=6, mult=2):
        super().__init__()
        self.h = h
        self.norm_a, self.norm_b = nn.LayerNorm(d), nn.LayerNorm(d)
        self.wq, self.wk, self.wv, self.wo = (nn.Linear(d, d, bias=False) for _ in range(4))
        self.mix_logits = nn.Parameter(torch.eye(h) + 0.1 * torch.randn(h, h))
        self.mix_probs = nn.Parameter(torch.eye(h) + 0.1 * torch.randn(h, h))
        self.mlp = nn.Sequential(nn.Linear(d, mult * d), nn.SiLU(), nn.Linear(mult * d, d))

    def attend(self, x, pad):
        B, L, D = x.shape
        q, k, v = (w(x).view(B, L, self.h, D // self.h) for w in (self.wq, self.wk, self.wv))
        J = torch.einsum("bnhd,bmhd->bhnm", q, k) * (D // self.h) ** -0.5
        J = torch.einsum("bhnm,hg->bgnm", J, self.mix_logits)
        if pad is not None:
            J = J.masked_fill(pad[:, None, None], torch.finfo(J.dtype).min)
        P = torch.einsum("bgnm,gf->bfnm", J.softmax(-1), self.mix_probs)
        return self.wo(torch.einsum("bfnm,bmfd->bnfd", P, v).reshape(B, L, D))

    def forward(self, x, pad=None):
        """x (B, L, d); pad (B, L), True on padding"""
        x = x + self.attend(self.norm_a(x), pad)
        return x + self.mlp(self.norm_b(x))
