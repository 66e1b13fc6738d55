"""Relative global attention of the Music Transformer (Huang et al. 2018), with the
memory-efficient "skewing" procedure.

Event vocabulary: note_on, note_off, time_shift, velocity; 0 is <pad>.
"""
import math

import torch
from torch import nn
import torch.nn.functional as F


class RelativeGlobalAttention(nn.Module):
    """(B, L, d) -> (B, L, d), causal, for any L <= max_len.

    Er (max_len, d_head) holds the embeddings of the distances in falling order: the last
    row belongs to distance 0, the row before it to distance 1, and so on.
    """

    def __init__(self, d_model=32, num_heads=4, max_len=64, dropout=0.1):
        super().__init__()
        d_head, remainder = divmod(d_model, num_heads)
        if remainder:
            raise ValueError("incompatible `d_model` and `num_heads`")
        self.max_len, self.num_heads = max_len, num_heads
        self.query = nn.Linear(d_model, d_model)
        self.key = nn.Linear(d_model, d_model)
        self.value = nn.Linear(d_model, d_model)
        self.out = nn.Linear(d_model, d_model)
        self.dropout = nn.Dropout(dropout)
        self.Er = nn.Parameter(torch.randn(max_len, d_head))
        self.register_buffer("mask", torch.tril(torch.ones(max_len, max_len)).bool())

    def forward(self, x):
        B, L, D = x.shape
        if L > self.max_len:
            raise ValueError("sequence length exceeds model capacity")
        k_t = self.key(x).reshape(B, L, self.num_heads, -1).permute(0, 2, 3, 1)
        v = self.value(x).reshape(B, L, self.num_heads, -1).transpose(1, 2)
        q = self.query(x).reshape(B, L, self.num_heads, -1).transpose(1, 2)

        Er_t = self.Er[:L, :].transpose(0, 1)
        QEr = torch.matmul(q, Er_t)
        Srel = self.skew(QEr)

        QK_t = torch.matmul(q, k_t)
        attn = (QK_t + Srel) / math.sqrt(q.size(-1))
        attn = attn.masked_fill(~self.mask[:L, :L], float("-inf"))
        attn = F.softmax(attn, dim=-1)
        out = torch.matmul(self.dropout(attn), v)
        return self.out(out.transpose(1, 2).reshape(B, L, D))

    @staticmethod
    def skew(QEr):
        """(B, H, L, L) by distance -> (B, H, L, L) by key"""
        padded = F.pad(QEr, (1, 0))
        B, H, L, cols = padded.shape
        return padded.reshape(B, H, cols, L)[:, :, 1:, :]


class MusicDecoder(nn.Module):
    def __init__(self, n_events=388, d_model=32, heads=4, layers=2, max_len=64, dropout=0.1):
        super().__init__()
        self.d_model = d_model
        self.embed = nn.Embedding(n_events, d_model, padding_idx=0)
        self.attn = nn.ModuleList(RelativeGlobalAttention(d_model, heads, max_len, dropout) for _ in range(layers))
        self.ff = nn.ModuleList(nn.Sequential(nn.Linear(d_model, 2 * d_model), nn.ReLU(), nn.Linear(2 * d_model, d_model)) for _ in range(layers))
        self.ln1 = nn.ModuleList(nn.LayerNorm(d_model) for _ in range(layers))
        self.ln2 = nn.ModuleList(nn.LayerNorm(d_model) for _ in range(layers))
        self.head = nn.Linear(d_model, n_events)

    def forward(self, events):
        x = self.embed(events) * math.sqrt(self.d_model)
        for attn, ff, ln1, ln2 in zip(self.attn, self.ff, self.ln1, self.ln2):
            x = ln1(x + attn(x))
            x = ln2(x + ff(x))
        return self.head(x)
