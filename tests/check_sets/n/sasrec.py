import numpy as np
import torch
import torch.nn as nn


class PointWiseFeedForward(nn.Module):
    def __init__(self, units):
        super().__init__()
        self.conv1 = nn.Conv1d(units, units, kernel_size=1)
        self.conv2 = nn.Conv1d(units, units, kernel_size=1)

    def forward(self, x):
        return x + self.conv2(torch.relu(self.conv1(x.transpose(-1, -2)))).transpose(-1, -2)


class SASRec(nn.Module):
    """Self-attentive sequential recommendation.  log_seqs (B, maxlen) of item ids, 0 is padding on the left."""

    def __init__(self, item_num=40, hidden_units=16, maxlen=12, num_blocks=2, num_heads=2):
        super().__init__()
        self.item_emb = nn.Embedding(item_num + 1, hidden_units, padding_idx=0)
        self.pos_emb = nn.Embedding(maxlen, hidden_units)
        self.norms = nn.ModuleList(nn.LayerNorm(hidden_units, eps=1e-8) for _ in range(num_blocks))
        self.attns = nn.ModuleList(nn.MultiheadAttention(hidden_units, num_heads) for _ in range(num_blocks))
        self.ff_norms = nn.ModuleList(nn.LayerNorm(hidden_units, eps=1e-8) for _ in range(num_blocks))
        self.ffs = nn.ModuleList(PointWiseFeedForward(hidden_units) for _ in range(num_blocks))
        self.last = nn.LayerNorm(hidden_units, eps=1e-8)

    def forward(self, log_seqs):
        seqs = self.item_emb(log_seqs) * self.item_emb.embedding_dim ** 0.5
        seqs = seqs + self.pos_emb(torch.arange(log_seqs.shape[1]))
        timeline = (log_seqs == 0).unsqueeze(-1)
        seqs = seqs.masked_fill(timeline, 0.0)
        tl = seqs.shape[1]
        attention_mask = ~torch.tril(torch.ones((tl, tl), dtype=torch.bool))
        for norm, attn, ff_norm, ff in zip(self.norms, self.attns, self.ff_norms, self.ffs):
            seqs = seqs.transpose(0, 1)
            Q = norm(seqs)
            out, _ = attn(Q, seqs, seqs, attn_mask=attention_mask)
            seqs = (Q + out).transpose(0, 1)
            seqs = ff(ff_norm(seqs)).masked_fill(timeline, 0.0)
        return self.last(seqs)
