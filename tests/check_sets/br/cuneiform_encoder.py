"""Sumerian -> English, encoder side.  Teaching code for the digital-humanities summer school,
after a popular annotated PyTorch transformer.

Shapes: B batch, L length of the padded line, D d_model, H n_head.
src_mask is built from the sign numbers: real sign True, <pad> False.
"""
import math

import torch
from torch import nn

PAD = 0
SIGNS = {"<pad>": 0, "<unk>": 1, "LUGAL": 2, "E2": 3, "AN": 4, "KI": 5, "DUMU": 6, "GAL": 7}


def encode(lines):
    """List of sign lists -> LongTensor [B, L] with padding on the right."""
    width = max(map(len, lines))
    rows = [[SIGNS.get(s, 1) for s in l] + [PAD] * (width - len(l)) for l in lines]
    return torch.tensor(rows)


class PositionalEncoding(nn.Module):
    def __init__(self, d_model, max_len=200):
        super().__init__()
        pos = torch.arange(max_len).float().unsqueeze(1)
        two_i = torch.arange(0, d_model, 2).float()
        angle = pos / 10000 ** (two_i / d_model)
        table = torch.zeros(max_len, d_model)
        table[:, 0::2], table[:, 1::2] = torch.sin(angle), torch.cos(angle)
        self.register_buffer("table", table)

    def forward(self, x):
        return x + self.table[: x.size(1)]


class ScaledDotProduct(nn.Module):
    def __init__(self, scale):
        super().__init__()
        self.scale = scale

    def forward(self, q, k, v, mask=None):
        score = torch.matmul(q, k.transpose(2, 3)) * self.scale
        if mask is not None:
            score = score.masked_fill(mask == 0, -1e9)
        weight = torch.softmax(score, dim=-1)
        return torch.matmul(weight, v), weight


class SignAttention(nn.Module):
    """Every real sign looks at all real signs of its line; <pad> is looked at by nobody.

    x [B, L, D], src_mask [B, L] (True = real sign) -> [B, L, D], weights [B, H, L, L]
    """

    def __init__(self, d_model, n_head):
        super().__init__()
        self.n_head = n_head
        self.w_q = nn.Linear(d_model, d_model)
        self.w_k = nn.Linear(d_model, d_model)
        self.w_v = nn.Linear(d_model, d_model)
        self.w_concat = nn.Linear(d_model, d_model)
        self.attention = ScaledDotProduct(n_head ** -0.5)

    def split(self, t):
        b, l, d = t.size()
        return t.view(b, l, self.n_head, d // self.n_head).transpose(1, 2)

    def concat(self, t):
        b, h, l, d = t.size()
        return t.transpose(1, 2).contiguous().view(b, l, h * d)

    def forward(self, x, src_mask=None):
        q, k, v = self.split(self.w_q(x)), self.split(self.w_k(x)), self.split(self.w_v(x))
        if src_mask is not None:
            src_mask = src_mask.unsqueeze(1).unsqueeze(3)
        out, weight = self.attention(q, k, v, src_mask)
        return self.w_concat(self.concat(out)), weight


class EncoderLayer(nn.Module):
    def __init__(self, d_model, n_head, hidden, p=0.1):
        super().__init__()
        self.attention = SignAttention(d_model, n_head)
        self.norm1, self.norm2 = nn.LayerNorm(d_model), nn.LayerNorm(d_model)
        self.ffn = nn.Sequential(nn.Linear(d_model, hidden), nn.ReLU(), nn.Dropout(p), nn.Linear(hidden, d_model))
        self.drop = nn.Dropout(p)

    def forward(self, x, mask):
        y, _ = self.attention(x, mask)
        x = self.norm1(x + self.drop(y))
        return self.norm2(x + self.drop(self.ffn(x)))


class TabletEncoder(nn.Module):
    def __init__(self, n_sign=len(SIGNS), d_model=32, n_head=4, hidden=64, n_layer=2):
        super().__init__()
        self.emb = nn.Embedding(n_sign, d_model, padding_idx=PAD)
        self.pos = PositionalEncoding(d_model)
        self.layers = nn.ModuleList([EncoderLayer(d_model, n_head, hidden) for _ in range(n_layer)])

    def forward(self, signs):
        mask = signs != PAD
        x = self.pos(self.emb(signs) * math.sqrt(self.emb.embedding_dim))
        for l in self.layers:
            x = l(x, mask)
        return x, mask


if __name__ == "__main__":
    y, m = TabletEncoder().eval()(encode([["LUGAL", "E2", "GAL"], ["AN", "KI", "DUMU", "AN", "KI"]]))
    print(y.shape, m)
