"""CS-NLP Homework 5: a character GPT from scratch.

Task 2: implement masked scaled dot-product attention, Attention(Q,K,V) = softmax(QK^T / sqrt(d_head)) V,
in several heads, and train it with AdamW(model.parameters()).
"""
import torch
import torch.nn as nn
from torch.nn import functional as F


class Head(nn.Module):
    """one head of causal self-attention"""

    def __init__(self, n_embd, head_size, block_size):
        super().__init__()
        self.key = nn.Linear(n_embd, head_size, bias=False)
        self.query = nn.Linear(n_embd, head_size, bias=False)
        self.value = nn.Linear(n_embd, head_size, bias=False)
        self.register_buffer("tril", torch.tril(torch.ones(block_size, block_size)))

    def forward(self, x):
        B, T, C = x.shape
        k = self.key(x)
        q = self.query(x)
        wei = q @ k.transpose(-2, -1)
        wei = wei.masked_fill(self.tril[:T, :T] == 0, float("-inf"))
        wei = F.softmax(wei, dim=-1)
        return wei @ self.value(x)


class MultiHeadAttention(nn.Module):
    def __init__(self, n_embd, num_heads, block_size, dropout=0.0):
        super().__init__()
        head_size = n_embd // num_heads
        self.heads = [Head(n_embd, head_size, block_size) for _ in range(num_heads)]
        self.proj = nn.Linear(n_embd, n_embd)
        self.dropout = nn.Dropout(dropout)

    def forward(self, x):
        out = torch.cat([h(x) for h in self.heads], dim=-1)
        return self.dropout(self.proj(out))


class Block(nn.Module):
    def __init__(self, n_embd, n_head, block_size, p):
        super().__init__()
        self.sa = MultiHeadAttention(n_embd, n_head, block_size, p)
        self.ffwd = nn.Sequential(
            nn.Linear(n_embd, 4 * n_embd), nn.ReLU(), nn.Linear(4 * n_embd, n_embd), nn.Dropout(p)
        )
        self.ln1, self.ln2 = nn.LayerNorm(n_embd), nn.LayerNorm(n_embd)

    def forward(self, x):
        x = x + self.sa(self.ln1(x))
        return x + self.ffwd(self.ln2(x))


class CharGPT(nn.Module):
    def __init__(self, vocab_size, n_embd=64, n_head=4, n_layer=3, block_size=64, dropout=0.1):
        super().__init__()
        self.block_size = block_size
        self.tok = nn.Embedding(vocab_size, n_embd)
        self.pos = nn.Embedding(block_size, n_embd)
        self.blocks = nn.Sequential(*[Block(n_embd, n_head, block_size, dropout) for _ in range(n_layer)])
        self.ln_f = nn.LayerNorm(n_embd)
        self.lm_head = nn.Linear(n_embd, vocab_size)

    def forward(self, idx, targets=None):
        T = idx.size(1)
        x = self.tok(idx) + self.pos(torch.arange(T, device=idx.device))
        logits = self.lm_head(self.ln_f(self.blocks(x)))
        loss = None if targets is None else F.cross_entropy(logits.flatten(0, 1), targets.flatten())
        return logits, loss

    @torch.no_grad()
    def generate(self, idx, n):
        for _ in range(n):
            logits, _ = self(idx[:, -self.block_size:])
            idx = torch.cat([idx, torch.multinomial(F.softmax(logits[:, -1], -1), 1)], 1)
        return idx


def train(text, steps=200, lr=3e-4, batch=16):
    chars = sorted(set(text))
    data = torch.tensor([chars.index(c) for c in text])
    model = CharGPT(len(chars))
    opt = torch.optim.AdamW(model.parameters(), lr=lr)
    for _ in range(steps):
        ix = torch.randint(len(data) - model.block_size - 1, (batch,))
        x = torch.stack([data[i: i + model.block_size] for i in ix])
        y = torch.stack([data[i + 1: i + 1 + model.block_size] for i in ix])
        _, loss = model(x, y)
        opt.zero_grad(set_to_none=True)
        loss.backward()
        opt.step()
    return model, float(loss.detach())
