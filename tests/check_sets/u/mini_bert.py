import math

import torch
import torch.nn as nn

CONFIG = {"vocab": 100, "segments": 2, "max_len": 32, "d_model": 24, "n_heads": 3, "d_ff": 48, "n_layers": 2}


class MultiHeadAttention(nn.Module):
    def __init__(self, c):
        super().__init__()
        self.n, self.d = c["n_heads"], c["d_model"] // c["n_heads"]
        self.fc_q = nn.Linear(c["d_model"], c["d_model"])
        self.fc_k = nn.Linear(c["d_model"], c["d_model"])
        self.fc_v = nn.Linear(c["d_model"], c["d_model"])
        self.fc_o = nn.Linear(c["d_model"], c["d_model"])

    def forward(self, query, key, value, mask=None):
        # query: (B, Lq, D), key and value: (B, Lk, D), mask: (B, Lk) with 0 at [PAD] keys
        B = query.size(0)
        Q = self.fc_q(query).view(B, -1, self.n, self.d).permute(0, 2, 1, 3)
        K = self.fc_k(key).view(B, -1, self.n, self.d).permute(0, 2, 1, 3)
        V = self.fc_v(value).view(B, -1, self.n, self.d).permute(0, 2, 1, 3)
        energy = Q @ K.permute(0, 1, 3, 2) / math.sqrt(self.d)
        if mask is not None:
            mask = mask.unsqueeze(1).unsqueeze(3)
            energy = energy.masked_fill(mask == 0, -1e9)
        attention = torch.softmax(energy, dim=-1)
        x = (attention @ V).contiguous()
        x = x.view(B, -1, self.n * self.d)
        return self.fc_o(x)


class EncoderLayer(nn.Module):
    def __init__(self, c):
        super().__init__()
        self.mha = MultiHeadAttention(c)
        self.ff = nn.Sequential(nn.Linear(c["d_model"], c["d_ff"]), nn.GELU(), nn.Linear(c["d_ff"], c["d_model"]))
        self.ln1, self.ln2 = nn.LayerNorm(c["d_model"]), nn.LayerNorm(c["d_model"])

    def forward(self, x, mask):
        x = self.ln1(x + self.mha(x, x, x, mask))
        return self.ln2(x + self.ff(x))


class MiniBert(nn.Module):
    def __init__(self, c=CONFIG):
        super().__init__()
        self.tok = nn.Embedding(c["vocab"], c["d_model"])
        self.pos = nn.Embedding(c["max_len"], c["d_model"])
        self.seg = nn.Embedding(c["segments"], c["d_model"])
        self.layers = nn.ModuleList([EncoderLayer(c) for _ in range(c["n_layers"])])

    def forward(self, ids, token_type, mask=None):
        pos = torch.arange(ids.size(1), device=ids.device).expand_as(ids)
        x = self.tok(ids) + self.pos(pos) + self.seg(token_type)
        for layer in self.layers:
            x = layer(x, mask)
        return x
