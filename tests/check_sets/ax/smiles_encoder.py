"""Encoder for SMILES strings used in the solubility and toxicity models."""
import re

import torch
from torch import nn

TOKEN = re.compile(r"(\[[^\]]+]|Br?|Cl?|N|O|S|P|F|I|b|c|n|o|s|p|\(|\)|\.|=|#|-|\+|\\|/|:|~|@|\?|>|\*|\$|%[0-9]{2}|[0-9])")


class SmilesVocab:
    def __init__(self, smiles, min_count=1):
        count = {}
        for s in smiles:
            for t in TOKEN.findall(s):
                count[t] = count.get(t, 0) + 1
        self.itos = ["<pad>", "<unk>", "<cls>"] + sorted(t for t, c in count.items() if c >= min_count)
        self.stoi = {t: i for i, t in enumerate(self.itos)}

    def encode(self, s):
        return [2] + [self.stoi.get(t, 1) for t in TOKEN.findall(s)]

    def batch(self, smiles):
        seqs = [self.encode(s) for s in smiles]
        out = torch.zeros(len(seqs), max(map(len, seqs)), dtype=torch.long)
        for row, s in zip(out, seqs):
            row[: len(s)] = torch.tensor(s)
        return out


class SmilesSelfAttention(nn.Module):
    """Scaled dot product attention (scale = 1 / sqrt(size of a head)), heads in the batch axis.

    x [B, L, dim], pad [B, L] with True at padding; each sample is encoded on its own.
    """

    def __init__(self, dim, n_head, dropout=0.0):
        super().__init__()
        self.n_head, self.d_head = n_head, dim // n_head
        self.qkv = nn.Linear(dim, 3 * dim)
        self.out = nn.Linear(dim, dim)
        self.dropout = nn.Dropout(dropout)
        self.temper = n_head ** 0.5

    def forward(self, x, pad=None):
        B, L, dim = x.shape
        q, k, v = self.qkv(x).split(dim, dim=-1)
        q = q.view(B, L, self.n_head, self.d_head).transpose(1, 2).reshape(-1, L, self.d_head)
        k = k.view(B, L, self.n_head, self.d_head).transpose(1, 2).reshape(-1, L, self.d_head)
        v = v.view(B, L, self.n_head, self.d_head).transpose(1, 2).reshape(-1, L, self.d_head)

        s = torch.bmm(q, k.transpose(1, 2)) / self.temper
        if pad is not None:
            m = pad[:, None, None, :].expand(B, self.n_head, 1, L).reshape(-1, 1, L)
            s = s.masked_fill(m, torch.finfo(s.dtype).min)
        p = self.dropout(torch.softmax(s, dim=-1))
        y = torch.bmm(p, v)

        y = y.view(self.n_head, B, L, self.d_head)
        y = y.permute(1, 2, 0, 3).reshape(B, L, dim)
        return self.out(y)


class SmilesLayer(nn.Module):
    def __init__(self, dim, n_head, dropout):
        super().__init__()
        self.attn = SmilesSelfAttention(dim, n_head, dropout)
        self.ffn = nn.Sequential(nn.Linear(dim, 4 * dim), nn.GELU(), nn.Dropout(dropout), nn.Linear(4 * dim, dim))
        self.n1, self.n2 = nn.LayerNorm(dim), nn.LayerNorm(dim)
        self.drop = nn.Dropout(dropout)

    def forward(self, x, pad):
        x = x + self.drop(self.attn(self.n1(x), pad))
        return x + self.drop(self.ffn(self.n2(x)))


class SmilesEncoder(nn.Module):
    def __init__(self, vocab, dim=128, n_head=8, depth=4, max_len=256, dropout=0.1, tasks=1):
        super().__init__()
        self.tok = nn.Embedding(vocab, dim, padding_idx=0)
        self.pos = nn.Embedding(max_len, dim)
        self.layers = nn.ModuleList(SmilesLayer(dim, n_head, dropout) for _ in range(depth))
        self.norm = nn.LayerNorm(dim)
        self.head = nn.Linear(dim, tasks)

    def forward(self, ids):
        pad = ids == 0
        x = self.tok(ids) + self.pos(torch.arange(ids.size(1), device=ids.device))
        for layer in self.layers:
            x = layer(x, pad)
        return self.head(self.norm(x[:, 0]))


def masked_bce(logits, labels):
    """labels NaN where the assay was not done"""
    known = ~torch.isnan(labels)
    loss = nn.functional.binary_cross_entropy_with_logits(logits[known], labels[known], reduction="sum")
    return loss / known.sum().clamp(min=1)
