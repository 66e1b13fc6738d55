import math
import torch
import torch.nn as nn
import torch.nn.functional as F

# Relative global attention, Huang et al. "Music Transformer".
# Er row max_len-1 is distance 0, row 0 the longest distance into the past.


def positional_table(T, C):
    pos = torch.arange(T).float()[:, None]
    div = torch.exp(torch.arange(0, C, 2).float() * (-math.log(10000.) / C))
    pe = torch.zeros(T, C)
    pe[:, 0::2] = torch.sin(pos * div)
    pe[:, 1::2] = torch.cos(pos * div)
    return pe


class RelativeGlobalAttention(nn.Module):
    def __init__(self, d_model, num_heads, max_len=64, dropout=0.1):
        super().__init__()
        d_head, rem = divmod(d_model, num_heads)
        if rem:
            raise ValueError("incompatible `d_model` and `num_heads`")
        self.max_len, self.num_heads = max_len, num_heads
        self.key = nn.Linear(d_model, d_model)
        self.value = nn.Linear(d_model, d_model)
        self.query = nn.Linear(d_model, d_model)
        self.dropout = nn.Dropout(dropout)
        self.Er = nn.Parameter(torch.randn(max_len, d_head))
        self.register_buffer("mask", torch.tril(torch.ones(max_len, max_len)).unsqueeze(0).unsqueeze(0))

    def forward(self, x):
        B, T, C = x.shape
        if T > self.max_len:
            raise ValueError("sequence length exceeds model capacity")
        k_t = self.key(x).reshape(B, T, self.num_heads, -1).permute(0, 2, 3, 1)
        v = self.value(x).reshape(B, T, self.num_heads, -1).transpose(1, 2)
        q = self.query(x).reshape(B, T, self.num_heads, -1).transpose(1, 2)
        start = self.max_len - T
        Er_t = self.Er[start:, :].transpose(0, 1)
        QEr = torch.matmul(q, Er_t)
        Srel = self.skew(QEr)
        QK_t = torch.matmul(q, k_t)
        attn = (QK_t + Srel) / math.sqrt(q.size(-1))
        attn = attn.masked_fill(self.mask[:, :, :T, :T] == 0, float("-inf"))
        attn = F.softmax(attn, dim=-1)
        out = torch.matmul(self.dropout(attn), v).transpose(1, 2).reshape(B, T, -1)
        return out

    @staticmethod
    def skew(QEr):
        B, H, T, _ = QEr.shape
        padded = F.pad(QEr, (1, 0))
        return padded.reshape(B, H, T + 1, T)[:, :, 1:, :]


class MusicModel(nn.Module):
    def __init__(self, n_events=50, d_model=32, num_heads=4, n_layers=2, max_len=64):
        super().__init__()
        self.emb = nn.Embedding(n_events, d_model)
        self.register_buffer("pe", positional_table(max_len, d_model), persistent=False)
        self.att = nn.ModuleList([RelativeGlobalAttention(d_model, num_heads, max_len) for _ in range(n_layers)])
        self.ff = nn.ModuleList([nn.Sequential(nn.Linear(d_model, 64), nn.ReLU(), nn.Linear(64, d_model))
                                 for _ in range(n_layers)])
        self.ln = nn.ModuleList([nn.LayerNorm(d_model) for _ in range(2 * n_layers)])
        self.out = nn.Linear(d_model, n_events)

    def forward(self, ev):
        x = self.emb(ev) * math.sqrt(self.emb.embedding_dim) + self.pe[:ev.size(1)]
        for i, (a, f) in enumerate(zip(self.att, self.ff)):
            x = self.ln[2 * i](x + a(x))
            x = self.ln[2 * i + 1](x + f(x))
        return self.out(x)
