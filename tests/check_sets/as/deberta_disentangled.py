"""Disentangled self-attention of DeBERTa (He et al., 2021).

With content vectors Qc, Kc and relative position vectors Qr, Kr (2k rows), eq. 4 of the paper is

    A[i, j] = Qc_i . Kc_j  +  Qc_i . Kr_{delta(i, j)}  +  Kc_j . Qr_{delta(j, i)}

with delta(i, j) = clamp(i - j + k, 0, 2k - 1), and softmax(A / sqrt(3 d)).
"""
from types import SimpleNamespace

import torch
from torch import nn


def delta(n_q, n_k, span, device=None):
    rel = torch.arange(n_q, device=device)[:, None] - torch.arange(n_k, device=device)[None, :]
    return (rel + span).clamp(0, 2 * span - 1)


class DisentangledSelfAttention(nn.Module):
    def __init__(self, config):
        super().__init__()
        self.heads = config.num_attention_heads
        self.d = config.hidden_size // self.heads
        self.span = config.max_relative_positions
        self.terms = tuple(config.pos_att_type)           # out of "c2p", "p2c"
        self.in_proj = nn.Linear(config.hidden_size, 3 * config.hidden_size, bias=False)
        self.pos_proj = nn.Linear(config.hidden_size, config.hidden_size, bias=False)
        self.pos_q_proj = nn.Linear(config.hidden_size, config.hidden_size)
        self.drop = nn.Dropout(config.attention_probs_dropout_prob)

    def _split(self, t):
        return t.view(*t.shape[:-1], self.heads, self.d).transpose(-2, -3)

    def forward(self, hidden, keep, rel_embeddings):
        """hidden [B, L, C]; keep [B, L] bool, True = token; rel_embeddings [2 * span, C]"""
        B, L, C = hidden.shape
        q, k, v = (self._split(t) for t in self.in_proj(hidden).chunk(3, -1))
        scale = (self.d * (1 + len(self.terms))) ** -0.5
        scores = q @ k.transpose(-1, -2)
        scores = scores + self.disentangled_bias(q, k, rel_embeddings)
        scores = scores * scale
        visible = (keep[:, None, :] & keep[:, :, None]).unsqueeze(1)
        scores = scores.masked_fill(~visible, torch.finfo(scores.dtype).min)
        probs = torch.softmax(scores, -1).masked_fill(~visible, 0.0)
        return (self.drop(probs) @ v).transpose(1, 2).reshape(B, L, C)

    def disentangled_bias(self, q, k, rel):
        L = q.shape[-2]
        index = delta(L, L, self.span, q.device).expand(q.shape[0], self.heads, L, L)
        total = 0.0
        if "c2p" in self.terms:
            pos_key = self._split(self.pos_proj(rel))
            total = total + torch.gather(q @ pos_key.mT, -1, index)
        if "p2c" in self.terms:
            pos_query = self._split(self.pos_q_proj(rel))
            total = total + torch.gather(k @ pos_query.mT, -1, index)
        return total


class DebertaLayer(nn.Module):
    def __init__(self, config):
        super().__init__()
        self.attention = DisentangledSelfAttention(config)
        self.dense = nn.Linear(config.hidden_size, config.hidden_size)
        self.ln1, self.ln2 = nn.LayerNorm(config.hidden_size), nn.LayerNorm(config.hidden_size)
        self.ff = nn.Sequential(nn.Linear(config.hidden_size, 4 * config.hidden_size), nn.GELU(), nn.Linear(4 * config.hidden_size, config.hidden_size))

    def forward(self, x, keep, rel):
        x = self.ln1(x + self.dense(self.attention(x, keep, rel)))
        return self.ln2(x + self.ff(x))


class DebertaEncoder(nn.Module):
    def __init__(self, config):
        super().__init__()
        self.rel_embeddings = nn.Embedding(2 * config.max_relative_positions, config.hidden_size)
        self.layers = nn.ModuleList(DebertaLayer(config) for _ in range(config.num_hidden_layers))

    def forward(self, x, keep):
        for layer in self.layers:
            x = layer(x, keep, self.rel_embeddings.weight)
        return x


def base_config(**over):
    d = dict(hidden_size=48, num_attention_heads=4, num_hidden_layers=2, max_relative_positions=16,
             pos_att_type=("c2p", "p2c"), attention_probs_dropout_prob=0.1)
    return SimpleNamespace(**{**d, **over})
