"""Translation encoder, speed-up: three-dimensional bmm with heads folded into the batch.

FoldedEncoderAttention(dim, heads, cap).forward(x, src_pad) -> (B, T, dim)
    x        (B, T, dim)
    src_pad  (B, T) bool, True = padding; padding keys of a sentence get no weight from
             that sentence's tokens; at least one token is real
    cap      the logits q.k / sqrt(dim / heads) go through cap * tanh(logit / cap) before
             masking, as in the teacher model (cap = 5 there)
"""
import torch
import torch.nn as nn


class FoldedEncoderAttention(nn.Module):
    def __init__(self, dim, heads, cap=5.0):
        super().__init__()
        self.heads, self.d, self.cap = heads, dim // heads, cap
        self.in_proj = nn.Linear(dim, 3 * dim)
        self.out_proj = nn.Linear(dim, dim)

    def fold(self, t):
        B, T, _ = t.shape
        t = t.view(B, T, self.heads, self.d).permute(0, 2, 1, 3)
        return t.reshape(B * self.heads, T, self.d)

    def forward(self, x, src_pad):
        B, T, D = x.shape
        q, k, v = map(self.fold, self.in_proj(x).chunk(3, dim=-1))
        logits = torch.bmm(q, k.transpose(1, 2)) / self.d ** 0.5
        hide = src_pad.unsqueeze(1).repeat(self.heads, 1, 1)
        logits = logits.masked_fill(hide, float("-inf"))
        y = torch.bmm(torch.softmax(logits, dim=-1), v)
        y = y.view(B, self.heads, T, self.d).permute(0, 2, 1, 3).reshape(B, T, D)
        return self.out_proj(y)
