"""nano-dracula: character level GPT on the text of Dracula, after the famous video lecture.

    idx (B, T) long  ->  logits (B, T, vocab)

The logits at place t are for the character t + 1 and may be computed from the characters
0 .. t (those, and no later one).  Attention: 1/sqrt(head_size), softmax over
the visible characters, heads next to each other, then a projection.
"""
import torch
import torch.nn as nn
from torch.nn import functional as F


class Head(nn.Module):
    def __init__(self, n_embd, head_size, block_size):
        super().__init__()
        self.key = nn.Linear(n_embd, head_size, bias=False)
        self.query = nn.Linear(n_embd, head_size, bias=False)
        self.value = nn.Linear(n_embd, head_size, bias=False)
        self.register_buffer("night", torch.triu(torch.ones(block_size, block_size), diagonal=2).bool())

    def forward(self, x):
        B, T, C = x.shape
        k = self.key(x)
        q = self.query(x)
        wei = q @ k.transpose(-2, -1) * k.shape[-1] ** -0.5
        wei = wei.masked_fill(self.night[:T, :T], float("-inf"))
        wei = F.softmax(wei, dim=-1)
        return wei @ self.value(x)


class MultiHead(nn.Module):
    def __init__(self, n_embd, n_head, block_size):
        super().__init__()
        self.heads = nn.ModuleList([Head(n_embd, n_embd // n_head, block_size) for _ in range(n_head)])
        self.proj = nn.Linear(n_embd, n_embd)

    def forward(self, x):
        return self.proj(torch.cat([h(x) for h in self.heads], dim=-1))


class Dracula(nn.Module):
    def __init__(self, vocab=50, n_embd=32, n_head=4, block_size=16, n_layer=2):
        super().__init__()
        self.tok = nn.Embedding(vocab, n_embd)
        self.pos = nn.Embedding(block_size, n_embd)
        self.sa = nn.ModuleList([MultiHead(n_embd, n_head, block_size) for _ in range(n_layer)])
        self.ff = nn.ModuleList(
            [nn.Sequential(nn.Linear(n_embd, 4 * n_embd), nn.ReLU(), nn.Linear(4 * n_embd, n_embd)) for _ in range(n_layer)]
        )
        self.ln1 = nn.ModuleList([nn.LayerNorm(n_embd) for _ in range(n_layer)])
        self.ln2 = nn.ModuleList([nn.LayerNorm(n_embd) for _ in range(n_layer)])
        self.lm_head = nn.Linear(n_embd, vocab)

    def forward(self, idx):
        x = self.tok(idx) + self.pos(torch.arange(idx.shape[1], device=idx.device))
        for sa, ff, l1, l2 in zip(self.sa, self.ff, self.ln1, self.ln2):
            x = x + sa(l1(x))
            x = x + ff(l2(x))
        return self.lm_head(x)
