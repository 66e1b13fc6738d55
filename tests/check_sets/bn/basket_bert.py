"""Next-basket recommendation, bidirectional, BERT4Rec-like.

items are 1..N, 0 = padding, N+1 = [MASK].  Attention weights are dropped out while
training (rate `attn_p`), never while scoring.
"""
import argparse
import random

import torch
import torch.nn as nn
import torch.nn.functional as F


def mask_items(seq, n_items, p=0.2, rng=random):
    """cloze task: returns (inputs, labels), label -100 where nothing is predicted"""
    inp, lab = [], []
    for it in seq:
        if it != 0 and rng.random() < p:
            inp.append(n_items + 1)
            lab.append(it)
        else:
            inp.append(it)
            lab.append(-100)
    return inp, lab


class BasketAttention(nn.Module):
    """seen: [B, L] bool, True = real item"""

    def __init__(self, hidden, heads, attn_p=0.2):
        super().__init__()
        self.heads = heads
        self.attn_p = attn_p
        self.qkv = nn.Linear(hidden, hidden * 3)
        self.out = nn.Linear(hidden, hidden)

    def forward(self, x, seen):
        if not self.training:
            self.attn_p = 0.0
        B, L, C = x.shape
        q, k, v = self.qkv(x).chunk(3, dim=-1)
        q, k, v = [t.view(B, L, self.heads, C // self.heads).transpose(1, 2) for t in (q, k, v)]
        y = F.scaled_dot_product_attention(
            q, k, v,
            attn_mask=seen[:, None, None, :],
            dropout_p=self.attn_p,
        )
        return self.out(y.transpose(1, 2).reshape(B, L, C))


class Layer(nn.Module):
    def __init__(self, hidden, heads, p):
        super().__init__()
        self.att = BasketAttention(hidden, heads, p)
        self.ffn = nn.Sequential(nn.Linear(hidden, 4 * hidden), nn.GELU(), nn.Linear(4 * hidden, hidden))
        self.n1, self.n2 = nn.LayerNorm(hidden), nn.LayerNorm(hidden)
        self.drop = nn.Dropout(p)

    def forward(self, x, seen):
        x = self.n1(x + self.drop(self.att(x, seen)))
        return self.n2(x + self.drop(self.ffn(x)))


class BasketBert(nn.Module):
    def __init__(self, n_items, hidden=32, heads=4, layers=2, max_len=50, p=0.2):
        super().__init__()
        self.item = nn.Embedding(n_items + 2, hidden, padding_idx=0)
        self.pos = nn.Embedding(max_len, hidden)
        self.layers = nn.ModuleList([Layer(hidden, heads, p) for _ in range(layers)])
        self.bias = nn.Parameter(torch.zeros(n_items + 2))

    def forward(self, ids):
        x = self.item(ids) + self.pos.weight[: ids.shape[1]]
        seen = ids.ne(0)
        for l in self.layers:
            x = l(x, seen)
        return x @ self.item.weight.T + self.bias


def train(model, batches, epochs, lr=1e-3):
    opt = torch.optim.AdamW(model.parameters(), lr)
    for ep in range(epochs):
        model.train()
        for ids, lab in batches:
            loss = F.cross_entropy(model(ids).flatten(0, 1), lab.flatten(), ignore_index=-100)
            opt.zero_grad()
            loss.backward()
            opt.step()
        model.eval()
        with torch.no_grad():
            hit = sum((model(i).argmax(-1) == l).sum().item() for i, l in batches)
        print(f"epoch {ep}: loss {loss.item():.3f} hits {hit}")


if __name__ == "__main__":
    ap = argparse.ArgumentParser()
    ap.add_argument("--items", type=int, default=200)
    ap.add_argument("--epochs", type=int, default=2)
    a = ap.parse_args()
    seqs = [[random.randint(1, a.items) for _ in range(12)] for _ in range(32)]
    pairs = [mask_items(s, a.items) for s in seqs]
    data = [(torch.tensor([p[0] for p in pairs]), torch.tensor([p[1] for p in pairs]))]
    train(BasketBert(a.items), data, a.epochs)
