"""Talking-heads attention (Shazeer et al. 2020) for a symbolic music model.

Two learned H x H matrices mix the heads, one on the logits, one on the weights.
Because of the second, the weights a head finally uses do not sum to one any
more -- that is how the method works, please do not "fix" it.

Autoregressive: note t sees notes 0..t.  The mask is set after the logits are
mixed, since -inf must not go through the mixing.
"""
import torch
import torch.nn as nn


class TalkingHeads(nn.Module):
    def __init__(self, dim: int = 64, heads: int = 4, dropout: float = 0.0):
        super().__init__()
        self.heads = heads
        self.scale = (dim // heads) ** -0.5
        self.to_qkv = nn.Linear(dim, dim * 3, bias=False)
        self.mix_logits = nn.Parameter(torch.eye(heads) + 0.1 * torch.randn(heads, heads))
        self.mix_weights = nn.Parameter(torch.eye(heads) + 0.1 * torch.randn(heads, heads))
        self.drop = nn.Dropout(dropout)
        self.to_out = nn.Linear(dim, dim)

    def forward(self, notes: torch.Tensor) -> torch.Tensor:
        """notes [B, T, dim] -> [B, T, dim]"""
        B, T, D = notes.shape
        qkv = self.to_qkv(notes).view(B, T, 3, self.heads, D // self.heads)
        q, k, v = qkv.permute(2, 0, 3, 1, 4)                # each [B, H, T, d]

        logits = torch.matmul(q, k.transpose(-1, -2)) * self.scale
        logits = torch.einsum("bhij,hg->bgij", logits, self.mix_logits)
        future = torch.ones(T, T, dtype=torch.bool, device=notes.device).triu(1)
        logits = logits.masked_fill(future, float("-inf"))
        w = logits.softmax(-1)
        w = torch.einsum("bhij,hg->bgij", w, self.mix_weights)
        w = self.drop(w)

        y = torch.matmul(w, v)                              # [B, H, T, d]
        return self.to_out(y.transpose(1, 2).reshape(B, T, D))


class MusicBlock(nn.Module):
    def __init__(self, dim=64, heads=4):
        super().__init__()
        self.n1, self.n2 = nn.LayerNorm(dim), nn.LayerNorm(dim)
        self.attn = TalkingHeads(dim, heads)
        self.mlp = nn.Sequential(nn.Linear(dim, 4 * dim), nn.SiLU(), nn.Linear(4 * dim, dim))

    def forward(self, notes):
        notes = notes + self.attn(self.n1(notes))
        return notes + self.mlp(self.n2(notes))
