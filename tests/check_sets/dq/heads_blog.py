"""From my blog: "Self-attention for the impatient, part 4: many heads".

Many heads are just several small attentions next to each other, glued together at
the end. Slower than one big matrix product, but you can read it.
"""
import torch
import torch.nn as nn
import torch.nn.functional as F


class Head(nn.Module):
    """One causal head, (B, T, n_embd) -> (B, T, head_size)."""

    def __init__(self, n_embd, head_size, block_size, dropout):
        super().__init__()
        self.key = nn.Linear(n_embd, head_size, bias=False)
        self.query = nn.Linear(n_embd, head_size, bias=False)
        self.value = nn.Linear(n_embd, head_size, bias=False)
        self.register_buffer("tril", torch.tril(torch.ones(block_size, block_size)))
        self.dropout = nn.Dropout(dropout)

    def forward(self, x):
        T = x.shape[1]
        k, q, v = self.key(x), self.query(x), self.value(x)
        wei = q @ k.transpose(1, 2) * k.shape[-1] ** -0.5
        wei = wei.masked_fill(self.tril[:T, :T] == 0, float("-inf"))
        wei = self.dropout(F.softmax(wei, dim=-1))
        return wei @ v


class ManyHeads(nn.Module):
    """Causal multi-head self-attention.

    x (B, T, n_embd), T <= block_size -> (B, T, n_embd). Position t sees 0..t only. Every
    head scales by 1/sqrt(head_size), head_size = n_embd // n_head. The heads are joined
    in order, then projected. Dropout is active in train() only.
    """

    def __init__(self, n_embd, n_head, block_size, dropout=0.1):
        super().__init__()
        size = n_embd // n_head
        self.heads = nn.ModuleList(
            [Head(n_embd, size, block_size, dropout) for _ in range(n_head)])
        self.proj = nn.Linear(n_head * size, n_embd)
        self.dropout = nn.Dropout(dropout)

    def forward(self, x):
        glued = torch.cat([h(x) for h in self.heads], dim=-1)
        return self.dropout(self.proj(glued))
