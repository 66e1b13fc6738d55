"""Blog: "A transformer that invents town names" -- the attention part.

Characters come in, characters come out. The heads are kept in a list, each with its
own three matrices, because that is the easiest way to see what goes on.
"""
import torch
import torch.nn as nn
from torch.nn import functional as F


class OneHead(nn.Module):
    """x (B, T, width) -> (B, T, size): softmax(q k^T / sqrt(size)) v over the characters
    up to and including the current one."""

    def __init__(self, width, size, longest):
        super().__init__()
        self.q = nn.Linear(width, size, bias=False)
        self.k = nn.Linear(width, size, bias=False)
        self.v = nn.Linear(width, size, bias=False)
        later = torch.ones(longest, longest, dtype=torch.bool).triu(diagonal=1)
        self.register_buffer("later", later)

    def forward(self, x):
        B, T, width = x.shape
        q, k, v = self.q(x), self.k(x), self.v(x)

        # how much does each character care about each other one?
        score = q @ k.transpose(-2, -1) * width ** -0.5

        # no peeking at the characters to come
        score.masked_fill(self.later[:T, :T], float("-inf"))

        weight = F.softmax(score, dim=-1)
        return weight @ v


class NameModel(nn.Module):
    """ids (B, T) -> logits (B, T, letters) for the next character at each position.

    logits[:, t] depends on ids[:, :t + 1] only. `heads` heads of size width // heads.
    T <= longest.
    """

    def __init__(self, letters=27, width=32, heads=4, longest=16):
        super().__init__()
        self.letter = nn.Embedding(letters, width)
        self.place = nn.Embedding(longest, width)
        self.heads = nn.ModuleList(
            OneHead(width, width // heads, longest) for _ in range(heads))
        self.join = nn.Linear(width, width)
        self.norm = nn.LayerNorm(width)
        self.guess = nn.Linear(width, letters)

    def forward(self, ids):
        x = self.letter(ids) + self.place(torch.arange(ids.shape[1], device=ids.device))
        x = x + self.join(torch.cat([head(x) for head in self.heads], dim=-1))
        return self.guess(self.norm(x))
