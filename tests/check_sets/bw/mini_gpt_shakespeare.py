"""Character-level GPT on tiny-shakespeare (week 6 lab, deep learning course, IIT).

Standard decoder-only transformer: masked multi-head attention, pre-norm, GELU.
`forward` takes an optional pad mask of shape (B, T), 1 for characters, 0 for padding.
"""
import math

import torch
import torch.nn as nn


class MaskedMultiHeadAttention(nn.Module):
    def __init__(self, n_embd, n_head, dropout):
        super().__init__()
        self.n_head = n_head
        self.d_k = n_embd // n_head
        self.w_q = nn.Linear(n_embd, n_embd)
        self.w_k = nn.Linear(n_embd, n_embd)
        self.w_v = nn.Linear(n_embd, n_embd)
        self.w_o = nn.Linear(n_embd, n_embd)
        self.softmax = nn.Softmax(dim=1)
        self.dropout = nn.Dropout(dropout)

    def forward(self, x, mask):
        B, T, C = x.size()
        q = self.w_q(x).view(B, T, self.n_head, self.d_k).transpose(1, 2)
        k = self.w_k(x).view(B, T, self.n_head, self.d_k).transpose(1, 2)
        v = self.w_v(x).view(B, T, self.n_head, self.d_k).transpose(1, 2)

        scores = torch.matmul(q, k.transpose(2, 3)) / math.sqrt(self.d_k)
        scores = scores.masked_fill(mask == 0, 1e-9)
        attn = self.dropout(self.softmax(scores))

        out = torch.matmul(attn, v)
        out = out.transpose(1, 2).contiguous().view(B, T, C)
        return self.w_o(out)


class DecoderBlock(nn.Module):
    def __init__(self, n_embd, n_head, dropout):
        super().__init__()
        self.ln1 = nn.LayerNorm(n_embd)
        self.attn = MaskedMultiHeadAttention(n_embd, n_head, dropout)
        self.ln2 = nn.LayerNorm(n_embd)
        self.ff = nn.Sequential(
            nn.Linear(n_embd, 4 * n_embd),
            nn.GELU(),
            nn.Linear(4 * n_embd, n_embd),
            nn.Dropout(dropout),
        )

    def forward(self, x, mask):
        x = x + self.attn(self.ln1(x), mask)
        x = x + self.ff(self.ln2(x))
        return x


class MiniGPT(nn.Module):
    def __init__(self, vocab_size=65, block_size=32, n_embd=32, n_head=4, n_layer=2, dropout=0.1):
        super().__init__()
        self.block_size = block_size
        self.tok_emb = nn.Embedding(vocab_size, n_embd)
        self.pos_emb = nn.Embedding(block_size, n_embd)
        self.blocks = nn.ModuleList([DecoderBlock(n_embd, n_head, dropout) for _ in range(n_layer)])
        self.ln_f = nn.LayerNorm(n_embd)
        self.head = nn.Linear(n_embd, vocab_size)

    def forward(self, idx, pad_mask=None):
        B, T = idx.size()
        assert T <= self.block_size
        mask = torch.tril(torch.ones(T, T, device=idx.device)).view(1, 1, T, T)
        if pad_mask is not None:
            mask = mask * pad_mask.view(B, 1, 1, T)
        x = self.tok_emb(idx) + self.pos_emb(torch.arange(T, device=idx.device))
        for block in self.blocks:
            x = block(x, mask)
        return self.head(self.ln_f(x))

    @torch.no_grad()
    def generate(self, idx, n):
        self.eval()
        for _ in range(n):
            logits = self(idx[:, -self.block_size:])[:, -1]
            nxt = torch.multinomial(torch.softmax(logits, -1), 1)
            idx = torch.cat([idx, nxt], dim=1)
        return idx
