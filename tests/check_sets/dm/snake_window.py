"""Snake with a memory: sliding-window transformer as the policy net of a snake.

Observations come in as a stream.  With window W an observation attends to exactly the W
last ones INCLUDING itself: for W = 1 only itself, for W = 2 itself and the one
before, and so on (fewer at the beginning of the game).

    obs (B, T, C)  ->  q-values (B, T, 4)   up, right, down, left

head size d = C / heads, scores / sqrt(d).
"""
import torch
import torch.nn as nn
import torch.nn.functional as F


class SnakeMemory(nn.Module):
    def __init__(self, C, heads, W):
        super().__init__()
        self.heads, self.W = heads, W
        self.q = nn.Linear(C, C)
        self.k = nn.Linear(C, C)
        self.v = nn.Linear(C, C)

    def forward(self, x):
        B, T, C = x.shape
        shape = (B, T, self.heads, C // self.heads)
        q, k, v = (f(x).view(shape).transpose(1, 2) for f in (self.q, self.k, self.v))
        age = torch.arange(T, device=x.device)
        age = age[:, None] - age[None, :]
        visible = (age >= 0) & (age <= self.W)
        y = F.scaled_dot_product_attention(q, k, v, attn_mask=visible)
        return y.transpose(1, 2).flatten(2)


class SnakeBrain(nn.Module):
    def __init__(self, C=24, heads=3, W=4):
        super().__init__()
        self.mem = SnakeMemory(C, heads, W)
        self.ln = nn.LayerNorm(C)
        self.q_head = nn.Sequential(nn.Linear(C, 32), nn.Tanh(), nn.Linear(32, 4))

    def forward(self, obs):
        return self.q_head(self.ln(obs + self.mem(obs)))
