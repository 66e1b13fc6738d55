import math
from dataclasses import dataclass

import torch
import torch.nn as nn
import torch.nn.functional as F


@dataclass
class BertConfig:
    vocab_size: int = 120
    type_vocab_size: int = 2
    max_len: int = 64
    hidden: int = 32
    heads: int = 4
    layers: int = 2
    intermediate: int = 64
    dropout: float = 0.1


class Embeddings(nn.Module):
    def __init__(self, cfg):
        super().__init__()
        self.word = nn.Embedding(cfg.vocab_size, cfg.hidden, padding_idx=0)
        self.position = nn.Embedding(cfg.max_len, cfg.hidden)
        self.token_type = nn.Embedding(cfg.type_vocab_size, cfg.hidden)
        self.norm = nn.LayerNorm(cfg.hidden)
        self.drop = nn.Dropout(cfg.dropout)

    def forward(self, input_ids, token_type_ids=None):
        if token_type_ids is None:
            token_type_ids = torch.zeros_like(input_ids)
        pos = torch.arange(input_ids.size(1), device=input_ids.device)
        x = self.word(input_ids) + self.position(pos)[None] + self.token_type(token_type_ids)
        return self.drop(self.norm(x))


class SelfAttention(nn.Module):
    def __init__(self, cfg):
        super().__init__()
        assert cfg.hidden % cfg.heads == 0
        self.h, self.d = cfg.heads, cfg.hidden // cfg.heads
        self.query = nn.Linear(cfg.hidden, cfg.hidden)
        self.key = nn.Linear(cfg.hidden, cfg.hidden)
        self.value = nn.Linear(cfg.hidden, cfg.hidden)
        self.out = nn.Linear(cfg.hidden, cfg.hidden)
        self.drop = nn.Dropout(cfg.dropout)

    def heads(self, x):
        return x.view(x.size(0), x.size(1), self.h, self.d).transpose(1, 2)

    def forward(self, x, bias):
        q, k, v = self.heads(self.query(x)), self.heads(self.key(x)), self.heads(self.value(x))
        s = torch.matmul(q, k.transpose(-1, -2)) / math.sqrt(self.d)
        p = self.drop(F.softmax(s + bias, dim=-1))
        y = torch.matmul(p, v).transpose(1, 2).contiguous().view(x.shape)
        return self.out(y)


class Layer(nn.Module):
    def __init__(self, cfg):
        super().__init__()
        self.attn = SelfAttention(cfg)
        self.n1 = nn.LayerNorm(cfg.hidden)
        self.up = nn.Linear(cfg.hidden, cfg.intermediate)
        self.down = nn.Linear(cfg.intermediate, cfg.hidden)
        self.n2 = nn.LayerNorm(cfg.hidden)
        self.drop = nn.Dropout(cfg.dropout)

    def forward(self, x, bias):
        x = self.n1(x + self.drop(self.attn(x, bias)))
        return self.n2(x + self.drop(self.down(F.gelu(self.up(x)))))


class BertEncoder(nn.Module):
    """input_ids, token_type_ids: (B, L) integers; attention_mask: (B, L), 1 for tokens and 0 for padding.

    Returns the hidden states of the last layer, (B, L, hidden), and the pooled [CLS], (B, hidden).
    """

    def __init__(self, cfg: BertConfig = BertConfig()):
        super().__init__()
        self.embeddings = Embeddings(cfg)
        self.layers = nn.ModuleList(Layer(cfg) for _ in range(cfg.layers))
        self.pooler = nn.Linear(cfg.hidden, cfg.hidden)

    def forward(self, input_ids, token_type_ids=None, attention_mask=None):
        if attention_mask is None:
            attention_mask = torch.ones_like(input_ids)
        x = self.embeddings(input_ids, token_type_ids)
        bias = (1.0 - attention_mask[:, None, None, :].to(x.dtype)) * torch.finfo(x.dtype).min
        for layer in self.layers:
            x = layer(x, bias)
        return x, torch.tanh(self.pooler(x[:, 0]))
