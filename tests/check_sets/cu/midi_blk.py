"""Transformer block for MIDI events. Causal. Dropout only acts in training mode."""
import math

import torch
import torch.nn as nn
import torch.nn.functional as F


class MidiBlock(nn.Module):
    def __init__(self, width=32, n=4, drop=0.1):
        super().__init__()
        self.n, self.drop = n, drop
        self.to_q = nn.Linear(width, width, bias=False)
        self.to_k = nn.Linear(width, width, bias=False)
        self.to_v = nn.Linear(width, width, bias=False)
        self.back = nn.Linear(width, width)
        self.pre, self.mid = nn.LayerNorm(width), nn.LayerNorm(width)
        self.ff1, self.ff2 = nn.Linear(width, 4 * width), nn.Linear(4 * width, width)

    def heads(self, t):
        # one slice of width // n features per head: (B, n, T, width // n)
        return t.reshape(t.size(0), self.n, t.size(1), -1)

    def attend(self, x):
        q, k, v = self.heads(self.to_q(x)), self.heads(self.to_k(x)), self.heads(self.to_v(x))
        w = torch.matmul(q, k.transpose(2, 3)) / math.sqrt(q.size(-1))
        future = torch.ones(w.shape[-2:], dtype=torch.bool, device=x.device).triu(1)
        w = w.masked_fill(future, float("-inf")).softmax(-1)
        w = F.dropout(w, self.drop)
        y = torch.matmul(w, v)
        return self.back(y.permute(0, 2, 1, 3).reshape(x.shape))

    def forward(self, x):
        """x (B, T, width), position t sees events 0..t"""
        x = x + self.attend(self.pre(x))
        h = self.ff2(F.gelu(self.ff1(self.mid(x))))
        return x + F.dropout(h, self.drop, self.training)
