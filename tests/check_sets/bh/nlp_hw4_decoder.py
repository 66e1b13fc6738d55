"""
NLP course, homework 4 - headline generation with a Transformer decoder.
Student: #20417. All parts from scratch, nn.Transformer is not allowed.

  part a) positional encoding      (3 p.)
  part b) masked self-attention    (6 p.)
  part c) decoder block + sampling (4 p.)
"""
import math
import torch
import torch.nn as nn
import torch.nn.functional as F


def positional_encoding(max_len, d_model):
    """PE(pos, 2i) = sin(pos / 10000^(2i/d)), PE(pos, 2i+1) = cos(pos / 10000^(2i/d))"""
    pe = torch.zeros(max_len, d_model)
    for pos in range(max_len):
        for i in range(0, d_model, 2):
            angle = pos / (10000 ** ((2 * i) / d_model))
            pe[pos, i] = math.sin(angle)
            pe[pos, i + 1] = math.cos(angle)
    return pe


class MaskedSelfAttention(nn.Module):
    """
    Part b. x is (batch, seq, d_model). Position t may use positions 0..t only.
    Returns the new x and the attention weights (batch, heads, seq, seq), which
    we plot for the report. The positional encoding of part a is added here to
    the input (max_len positions).
    """

    def __init__(self, d_model, n_heads, max_len=128):
        super().__init__()
        assert d_model % n_heads == 0
        self.n_heads = n_heads
        self.d_k = d_model // n_heads
        self.W_q = nn.Linear(d_model, d_model)
        self.W_k = nn.Linear(d_model, d_model)
        self.W_v = nn.Linear(d_model, d_model)
        self.W_o = nn.Linear(d_model, d_model)
        self.register_buffer("pe", positional_encoding(max_len, d_model))

    def split_heads(self, x):
        batch, seq, _ = x.shape
        return x.view(batch, seq, self.n_heads, self.d_k).transpose(1, 2)

    def forward(self, x):
        batch, seq, d_model = x.shape
        x = x + self.pe[:seq]
        q = self.split_heads(self.W_q(x))
        k = self.split_heads(self.W_k(x))
        v = self.split_heads(self.W_v(x))

        # similarity of every query with every key
        attn = torch.matmul(q, k.transpose(-2, -1)) / math.sqrt(self.d_k)
        mask = torch.tril(torch.ones(seq, seq, device=x.device), diagonal=1)
        attn = attn.masked_fill(mask == 0, float("-inf"))
        context = torch.matmul(F.softmax(attn, dim=-1), v)

        context = context.transpose(1, 2).contiguous().view(batch, seq, d_model)
        return self.W_o(context), attn


class DecoderBlock(nn.Module):
    """Part c."""

    def __init__(self, d_model, n_heads):
        super().__init__()
        self.attn = MaskedSelfAttention(d_model, n_heads)
        self.norm1 = nn.LayerNorm(d_model)
        self.ff = nn.Sequential(nn.Linear(d_model, 4 * d_model), nn.ReLU(),
                                nn.Linear(4 * d_model, d_model))
        self.norm2 = nn.LayerNorm(d_model)

    def forward(self, x):
        a, weights = self.attn(x)
        x = self.norm1(x + a)
        return self.norm2(x + self.ff(x)), weights


class HeadlineModel(nn.Module):
    def __init__(self, vocab_size, d_model=64, n_heads=4):
        super().__init__()
        self.emb = nn.Embedding(vocab_size, d_model)
        self.block = DecoderBlock(d_model, n_heads)
        self.out = nn.Linear(d_model, vocab_size)

    def forward(self, ids):
        h, weights = self.block(self.emb(ids))
        return self.out(h), weights


@torch.no_grad()
def sample(model, ids, steps=8, temperature=1.0):
    for _ in range(steps):
        logits, _ = model(ids)
        p = F.softmax(logits[:, -1] / temperature, dim=-1)
        ids = torch.cat([ids, torch.multinomial(p, 1)], dim=1)
    return ids


if __name__ == "__main__":
    torch.manual_seed(4)
    model = HeadlineModel(50)
    print(sample(model, torch.tensor([[1, 2, 3]])))
