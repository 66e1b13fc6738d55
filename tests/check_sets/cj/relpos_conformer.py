"""Self-attention module of the Conformer ASR encoder, with Transformer-XL style
relative positions (Dai et al. 2019)."""
import torch
import torch.nn as nn


def sinusoid(positions, dim):
    inv = 10000 ** (-torch.arange(0, dim, 2).float() / dim)
    ang = positions.float()[:, None] * inv[None]
    pe = torch.zeros(len(positions), dim)
    pe[:, 0::2] = ang.sin()
    pe[:, 1::2] = ang.cos()
    return pe


class RelPosMHSA(nn.Module):
    """x (B, T, D), lengths (B,) in frames, all >= 1. Not causal.

    score(i, j) = ((q_i + u) . k_j + (q_i + w) . r_{i-j}) / sqrt(d_head)
    """

    def __init__(self, d_model=32, heads=4, dropout=0.1):
        super().__init__()
        self.heads, self.d = heads, d_model // heads
        self.norm = nn.LayerNorm(d_model)
        self.lin_q = nn.Linear(d_model, d_model)
        self.lin_k = nn.Linear(d_model, d_model)
        self.lin_v = nn.Linear(d_model, d_model)
        self.lin_r = nn.Linear(d_model, d_model, bias=False)
        self.lin_o = nn.Linear(d_model, d_model)
        self.u = nn.Parameter(torch.randn(heads, self.d) * 0.1)
        self.w = nn.Parameter(torch.randn(heads, self.d) * 0.1)
        self.drop = nn.Dropout(dropout)

    @staticmethod
    def rel_shift(a):
        # (B, H, T, 2T-1), column c holds distance T-1-c  ->  (B, H, T, T) with distance i-j
        B, H, T, S = a.shape
        a = torch.cat([a.new_zeros(B, H, T, 1), a], dim=-1).view(B, H, S + 1, T)
        return a[:, :, 1:].reshape(B, H, T, S)[..., :T]

    def forward(self, x, lengths):
        B, T, D = x.shape
        y = self.norm(x)
        q = self.lin_q(y).view(B, T, self.heads, self.d)
        k = self.lin_k(y).view(B, T, self.heads, self.d).transpose(1, 2)
        v = self.lin_v(y).view(B, T, self.heads, self.d).transpose(1, 2)
        pe = sinusoid(torch.arange(T - 1, -T, -1), D).to(x)
        r = self.lin_r(pe).view(2 * T - 1, self.heads, self.d).transpose(0, 1)

        content = (q + self.u).transpose(1, 2) @ k.transpose(-2, -1)
        position = self.rel_shift((q + self.w).transpose(1, 2) @ r.transpose(-2, -1))
        score = (content + position) / self.d**0.5
        pad = torch.arange(T, device=x.device)[None] >= lengths[:, None]
        score = score.masked_fill(pad[:, None, None], float("-inf"))
        ctx = self.drop(score.softmax(-1)) @ v
        return x + self.lin_o(ctx.transpose(1, 2).reshape(B, T, D))
