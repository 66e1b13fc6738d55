"""Tiny character GPT, after the lecture (notebook cell 14 onward).

`MultiHead(n_embd, n_head, block_size)` : x (B, T, n_embd) -> (B, T, n_embd), T <= block_size.
n_head causal heads of size n_embd // n_head work side by side: the logits of a head are
q.k / sqrt(head_size), token t attends to tokens 0..t, the heads' outputs are concatenated and
sent through `proj`.  `Block` is the usual pre-norm residual block.  Train with
AdamW(model.parameters()).
"""
import torch
import torch.nn as nn
from torch.nn import functional as F


class Head(nn.Module):
    """one head of self-attention"""

    def __init__(self, n_embd, head_size, block_size):
        super().__init__()
        self.key = nn.Linear(n_embd, head_size, bias=False)
        self.query = nn.Linear(n_embd, head_size, bias=False)
        self.value = nn.Linear(n_embd, head_size, bias=False)
        self.register_buffer("tril", torch.tril(torch.ones(block_size, block_size), diagonal=1))

    def forward(self, x):
        B, T, C = x.shape
        k = self.key(x)      # (B,T,hs)
        q = self.query(x)    # (B,T,hs)
        wei = q @ k.transpose(-2, -1) * C ** -0.5    # (B,T,T)
        wei = wei.masked_fill(self.tril[:T, :T] == 0, float("-inf"))
        wei = F.softmax(wei, dim=-1)
        return wei @ self.value(x)


class MultiHead(nn.Module):
    """several heads in parallel"""

    def __init__(self, n_embd, n_head, block_size):
        super().__init__()
        hs = n_embd // n_head
        self.heads = [Head(n_embd, hs, block_size) for _ in range(n_head)]
        self.proj = nn.Linear(n_embd, n_embd)

    def forward(self, x):
        out = torch.cat([h(x) for h in self.heads], dim=-1)
        return self.proj(out)


class Block(nn.Module):
    def __init__(self, n_embd, n_head, block_size):
        super().__init__()
        self.sa = MultiHead(n_embd, n_head, block_size)
        self.ffwd = nn.Sequential(nn.Linear(n_embd, 4 * n_embd), nn.GELU(),
                                  nn.Linear(4 * n_embd, n_embd))
        self.ln1 = nn.LayerNorm(n_embd)
        self.ln2 = nn.LayerNorm(n_embd)

    def forward(self, x):
        x = x + self.sa(self.ln1(x))
        return x + self.ffwd(self.ln2(x))
