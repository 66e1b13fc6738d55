"""Disentangled self-attention (DeBERTa, He et al. 2021), single file, without the HF machinery."""
import math

import torch
import torch.nn as nn


class DisentangledSelfAttention(nn.Module):
    r"""
    A_ij = Qc_i . Kc_j  +  Qc_i . Kr_{delta(i,j)}  +  Kc_j . Qr_{delta(j,i)}
    softmax over j of A / sqrt(3 d)

    with delta(i, j) = clamp(i - j + k, 0, 2k - 1), where k is the maximum relative distance.

    Args:
        hidden_states: (B, L, hidden)
        attention_mask: (B, L), 1 for real tokens and 0 for padding. Output at padded positions is
            unspecified; every sequence has at least one real token ([CLS]).
    """

    def __init__(self, hidden=32, heads=4, max_distance=6, dropout=0.1):
        super().__init__()
        self.heads, self.d = heads, hidden // heads
        self.k = max_distance
        self.query_proj = nn.Linear(hidden, hidden)
        self.key_proj = nn.Linear(hidden, hidden)
        self.value_proj = nn.Linear(hidden, hidden)
        self.pos_key_proj = nn.Linear(hidden, hidden, bias=False)
        self.pos_query_proj = nn.Linear(hidden, hidden)
        self.rel_embeddings = nn.Embedding(2 * max_distance, hidden)
        self.dropout = nn.Dropout(dropout)

    def split(self, t):
        return t.view(*t.shape[:-1], self.heads, self.d).transpose(-3, -2)

    def forward(self, hidden_states, attention_mask=None):
        B, L, _ = hidden_states.shape
        qc = self.split(self.query_proj(hidden_states))  # (B, H, L, d)
        kc = self.split(self.key_proj(hidden_states))
        v = self.split(self.value_proj(hidden_states))
        table = self.rel_embeddings.weight
        kr = self.split(self.pos_key_proj(table))  # (H, 2k, d)
        qr = self.split(self.pos_query_proj(table))

        pos = torch.arange(L, device=hidden_states.device)
        delta = (pos[:, None] - pos[None, :] + self.k).clamp(0, 2 * self.k - 1)  # delta(i, j)
        index = delta.expand(B, self.heads, L, L)

        c2c = qc @ kc.transpose(-1, -2)
        c2p = torch.gather(qc @ kr.transpose(-1, -2), -1, index)
        # row j of the gathered matrix holds Kc_j . Qr_{delta(j, i)} for all i
        p2c = torch.gather(kc @ qr.transpose(-1, -2), -1, index).transpose(-1, -2)

        scores = (c2c + c2p + p2c) / math.sqrt(3 * self.d)
        if attention_mask is not None:
            pad = attention_mask[:, None, None, :] == 0
            scores = scores.masked_fill(pad, torch.finfo(scores.dtype).min)
        probs = self.dropout(scores.softmax(dim=-1))
        out = probs @ v
        return out.transpose(1, 2).reshape(B, L, -1)
