"""Decoder block for checkpoints imported from a Megatron / NeoX style trainer.

The fused weight ``qkv.weight`` comes straight from the checkpoint and is not
re-ordered on import: its 3*C rows are grouped by head, i.e. they read as
(H, 3, d) -- for head 0 the d rows of q, then of k, then of v, then head 1 ...

``NeoBlock(C, H)``
    x : (B, T, C)  ->  (B, T, C)
Causal (t sees <= t), logits over sqrt(head width d = C / H), parallel residual
x + attn(ln1 x) + mlp(ln2 x) as in NeoX, no rotary part in this small variant.
"""
import torch
import torch.nn as nn


class NeoBlock(nn.Module):
    def __init__(self, C: int, H: int):
        super().__init__()
        assert C % H == 0
        self.C, self.H, self.d = C, H, C // H
        self.ln1 = nn.LayerNorm(C)
        self.ln2 = nn.LayerNorm(C)
        self.qkv = nn.Linear(C, 3 * C)
        self.out = nn.Linear(C, C)
        self.fc = nn.Sequential(nn.Linear(C, 4 * C), nn.GELU(), nn.Linear(4 * C, C))
        self.temp = self.C ** -0.5

    def mix(self, x):
        B, T, C = x.shape
        z = self.qkv(x).reshape(B, T, 3, self.H, self.d)
        q, k, v = z.permute(2, 0, 3, 1, 4).unbind(0)
        s = torch.einsum("bhid,bhjd->bhij", q, k) * self.temp
        later = torch.ones(T, T, dtype=torch.bool, device=x.device).triu(1)
        s = s.masked_fill(later, float("-inf"))
        y = torch.einsum("bhij,bhjd->bihd", s.softmax(-1), v)
        return self.out(y.reshape(B, T, C))

    def forward(self, x):
        return x + self.mix(self.ln1(x)) + self.fc(self.ln2(x))
