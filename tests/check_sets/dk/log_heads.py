"""Which lines of a crash log matter?  Multi-head self attention over log lines.

LineRanker(dim, n_heads)(lines, n_lines)
    lines    [B, T, dim]  sentence vectors of the lines
    n_lines  [B] int      real lines of each log (>= 1), rest is padding
returns importance [B, T] (softmax over real lines, padding gets 0).

The encoder has n_heads independent heads, each with its own query, key and value
matrices of shape dim x (dim / n_heads); scores are divided by sqrt(dim / n_heads), heads
are concatenated and projected.  Padding is not attended to.
"""
import torch
from torch import nn


class LineHead(nn.Module):
    """one head: [B, T, dim] -> [B, T, width]"""

    def __init__(self, dim, width):
        super().__init__()
        self.query = nn.Linear(dim, width, bias=False)
        self.key = nn.Linear(dim, width, bias=False)
        self.value = nn.Linear(dim, width, bias=False)

    def forward(self, x, pad):
        q, k, v = self.query(x), self.key(x), self.value(x)
        wei = q @ k.transpose(-2, -1) * k.shape[-1] ** -0.5
        wei = wei.masked_fill(pad[:, None, :], float("-inf"))
        return wei.softmax(dim=-1) @ v


class MultiHead(nn.Module):
    def __init__(self, dim, n_heads):
        super().__init__()
        head = LineHead(dim, dim // n_heads)
        self.heads = nn.ModuleList([head for _ in range(n_heads)])
        self.proj = nn.Linear(dim, dim)

    def forward(self, x, pad):
        return self.proj(torch.cat([h(x, pad) for h in self.heads], dim=-1))


class LineRanker(nn.Module):
    def __init__(self, dim=32, n_heads=4):
        super().__init__()
        self.ln = nn.LayerNorm(dim)
        self.att = MultiHead(dim, n_heads)
        self.score = nn.Linear(dim, 1)

    def forward(self, lines, n_lines):
        pad = torch.arange(lines.size(1), device=lines.device)[None] >= n_lines[:, None]
        x = lines + self.att(self.ln(lines), pad)
        s = self.score(x).squeeze(-1).masked_fill(pad, float("-inf"))
        return s.softmax(dim=1)


LEVELS = {"DEBUG": 0, "INFO": 1, "WARN": 2, "ERROR": 3, "FATAL": 4}


def level_of(line):
    for word in line.split():
        if word.strip("[]:") in LEVELS:
            return LEVELS[word.strip("[]:")]
    return 1
