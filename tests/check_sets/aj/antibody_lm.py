"""Masked language model for paired antibody chains.

Follows the BERT conventions of the original code base: the tokenizer's attention_mask has 1
for residues and 0 for padding, `extend_mask` turns it into an additive one (0 = visible, very
negative = hidden) once per batch, and all layers get the extended mask.
"""
from dataclasses import dataclass
from typing import Optional

import torch
import torch.nn.functional as F
from torch import nn

AAS = "ACDEFGHIKLMNPQRSTVWY"
SPECIAL = ["<pad>", "<cls>", "<sep>", "<mask>", "X"]
VOCAB = {t: i for i, t in enumerate(SPECIAL + list(AAS))}


@dataclass
class AntibodyConfig:
    hidden: int = 128
    layers: int = 4
    heads: int = 8
    intermediate: int = 384
    dropout: float = 0.1
    attn_dropout: float = 0.1
    max_len: int = 320
    vocab: int = len(VOCAB)


def extend_mask(attention_mask: torch.Tensor, dtype: torch.dtype) -> torch.Tensor:
    """[B, L] of 1/0 -> additive [B, 1, 1, L]"""
    ext = torch.zeros(attention_mask.shape, dtype=dtype, device=attention_mask.device)
    ext = ext.masked_fill(attention_mask == 0, torch.finfo(dtype).min)
    return ext[:, None, None, :]


class ResidueSelfAttention(nn.Module):
    def __init__(self, cfg: AntibodyConfig):
        super().__init__()
        self.num_heads = cfg.heads
        self.head_size = cfg.hidden // cfg.heads
        self.query = nn.Linear(cfg.hidden, cfg.hidden)
        self.key = nn.Linear(cfg.hidden, cfg.hidden)
        self.value = nn.Linear(cfg.hidden, cfg.hidden)
        self.dropout_p = cfg.attn_dropout

    def transpose_for_scores(self, x):
        return x.view(*x.shape[:2], self.num_heads, self.head_size).transpose(1, 2)

    def forward(self, hidden_states, extended_mask: Optional[torch.Tensor] = None):
        """extended_mask: additive, as made by extend_mask, or None"""
        q = self.transpose_for_scores(self.query(hidden_states))
        k = self.transpose_for_scores(self.key(hidden_states))
        v = self.transpose_for_scores(self.value(hidden_states))
        if extended_mask is not None:
            # the memory efficient kernel takes boolean masks
            extended_mask = extended_mask.to(torch.bool)
        context = F.scaled_dot_product_attention(q, k, v, attn_mask=extended_mask,
                                                 dropout_p=self.dropout_p if self.training else 0.0)
        return context.transpose(1, 2).flatten(2)


class AntibodyLayer(nn.Module):
    def __init__(self, cfg):
        super().__init__()
        self.attention = ResidueSelfAttention(cfg)
        self.dense = nn.Linear(cfg.hidden, cfg.hidden)
        self.norm1 = nn.LayerNorm(cfg.hidden)
        self.inter = nn.Linear(cfg.hidden, cfg.intermediate)
        self.output = nn.Linear(cfg.intermediate, cfg.hidden)
        self.norm2 = nn.LayerNorm(cfg.hidden)
        self.drop = nn.Dropout(cfg.dropout)

    def forward(self, x, ext):
        x = self.norm1(x + self.drop(self.dense(self.attention(x, ext))))
        return self.norm2(x + self.drop(self.output(F.gelu(self.inter(x)))))


class AntibodyLM(nn.Module):
    def __init__(self, cfg: AntibodyConfig):
        super().__init__()
        self.cfg = cfg
        self.tok = nn.Embedding(cfg.vocab, cfg.hidden, padding_idx=0)
        self.pos = nn.Embedding(cfg.max_len, cfg.hidden)
        self.chain = nn.Embedding(2, cfg.hidden)
        self.norm = nn.LayerNorm(cfg.hidden)
        self.layers = nn.ModuleList([AntibodyLayer(cfg) for _ in range(cfg.layers)])
        self.lm_head = nn.Linear(cfg.hidden, cfg.vocab)

    def forward(self, ids, attention_mask, chain_ids):
        pos = torch.arange(ids.size(1), device=ids.device)
        x = self.norm(self.tok(ids) + self.pos(pos) + self.chain(chain_ids))
        ext = extend_mask(attention_mask, x.dtype)
        for layer in self.layers:
            x = layer(x, ext)
        return self.lm_head(x)


def tokenize(pairs):
    rows, chains = [], []
    for heavy, light in pairs:
        h = [VOCAB["<cls>"]] + [VOCAB.get(a, VOCAB["X"]) for a in heavy] + [VOCAB["<sep>"]]
        l = [VOCAB.get(a, VOCAB["X"]) for a in light] + [VOCAB["<sep>"]]
        rows.append(h + l)
        chains.append([0] * len(h) + [1] * len(l))
    n = max(map(len, rows))
    ids = torch.tensor([r + [0] * (n - len(r)) for r in rows])
    ch = torch.tensor([c + [0] * (n - len(c)) for c in chains])
    return ids, (ids != 0).long(), ch
