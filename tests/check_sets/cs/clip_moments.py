import torch
import torch.nn as nn


class MomentAttention(nn.Module):
    """Video clips (B, T, C) attend to words (B, S, C) of a text query.

    word_mask: (B, S) bool, True marks padding words.  Each text has at least one word.
    """

    def __init__(self, dim, num_heads):
        super().__init__()
        self.num_heads = num_heads
        self.q_lin = nn.Linear(dim, dim)
        self.k_lin = nn.Linear(dim, dim)
        self.v_lin = nn.Linear(dim, dim)
        self.o_lin = nn.Linear(dim, dim)

    def split(self, t):
        B, L, C = t.shape
        t = t.view(B, L, self.num_heads, C // self.num_heads).transpose(1, 2)
        return t.reshape(B * self.num_heads, L, C // self.num_heads)

    def forward(self, clips, words, word_mask):
        B, T, C = clips.shape
        q = self.split(self.q_lin(clips))
        k = self.split(self.k_lin(words))
        v = self.split(self.v_lin(words))
        energy = torch.baddbmm(torch.zeros(1, 1, 1, dtype=q.dtype), q, k.transpose(1, 2), alpha=q.size(-1) ** -0.5)
        pad = word_mask.repeat(self.num_heads, 1).unsqueeze(1)
        energy = energy.masked_fill(pad, float("-inf"))
        mixed = energy.softmax(dim=2) @ v
        mixed = mixed.view(B, self.num_heads, T, -1).transpose(1, 2).reshape(B, T, C)
        return self.o_lin(mixed)
