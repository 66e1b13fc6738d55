"""Toxicity from SMILES tokens - encoder used for the Tox21 baseline.

src       (B, L) token ids
src_mask  (B, L) int, 1 = token, 0 = padding (right side, at least one token)
returns   (B, 12) logits

Standard encoder: per head softmax(QK^T/sqrt(d_k)) over the real tokens only -- the
weights of a token over the real tokens sum to one -- then the heads are concatenated
feature-wise per token and projected.  Pooling is the mean over real tokens.
"""
import math
import torch
from torch import nn


class MultiHead(nn.Module):
    def __init__(self, d_model, n_head, dropout=0.1):
        super().__init__()
        self.n_head = n_head
        self.d_k = d_model // n_head
        self.wq = nn.Linear(d_model, d_model)
        self.wk = nn.Linear(d_model, d_model)
        self.wv = nn.Linear(d_model, d_model)
        self.fc = nn.Linear(d_model, d_model)
        self.dropout = nn.Dropout(dropout)

    def forward(self, x, mask):
        bs, L, dm = x.size()
        q = self.wq(x).view(bs, L, self.n_head, self.d_k).permute(0, 2, 1, 3)
        k = self.wk(x).view(bs, L, self.n_head, self.d_k).permute(0, 2, 1, 3)
        v = self.wv(x).view(bs, L, self.n_head, self.d_k).permute(0, 2, 1, 3)
        energy = torch.einsum("bhqd,bhkd->bhqk", q, k) / math.sqrt(self.d_k)
        attention = torch.softmax(energy, dim=-1)
        attention = attention * mask[:, None, None, :]
        out = torch.matmul(self.dropout(attention), v)
        out = out.contiguous().view(bs, L, dm)
        return self.fc(out)


class Tox21Net(nn.Module):
    def __init__(self, vocab, d_model=64, n_head=4, n_layer=2, max_len=200, tasks=12):
        super().__init__()
        self.tok = nn.Embedding(vocab, d_model, padding_idx=0)
        self.pos = nn.Embedding(max_len, d_model)
        self.att = nn.ModuleList([MultiHead(d_model, n_head) for _ in range(n_layer)])
        self.ffn = nn.ModuleList([
            nn.Sequential(nn.Linear(d_model, 4 * d_model), nn.ReLU(), nn.Linear(4 * d_model, d_model))
            for _ in range(n_layer)
        ])
        self.ln1 = nn.ModuleList([nn.LayerNorm(d_model) for _ in range(n_layer)])
        self.ln2 = nn.ModuleList([nn.LayerNorm(d_model) for _ in range(n_layer)])
        self.out = nn.Linear(d_model, tasks)

    def forward(self, src, src_mask):
        x = self.tok(src) + self.pos(torch.arange(src.size(1), device=src.device))
        for att, ffn, ln1, ln2 in zip(self.att, self.ffn, self.ln1, self.ln2):
            x = ln1(x + att(x, src_mask))
            x = ln2(x + ffn(x))
        m = src_mask.unsqueeze(-1).to(x.dtype)
        return self.out((x * m).sum(1) / m.sum(1))
