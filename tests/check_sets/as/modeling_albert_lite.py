"""ALBERT encoder (Lan et al., 2020): one group of parameters, used by every layer."""
import json
from collections import OrderedDict
from typing import Optional

import torch
from torch import nn


class AlbertConfig(dict):
    """A dict whose entries are attributes as well; `from_json` reads a checkpoint's config."""

    DEFAULTS = dict(vocab_size=100, embedding_size=16, hidden_size=48, num_hidden_layers=4, num_attention_heads=4,
                    intermediate_size=96, attention_probs_dropout_prob=0.0, hidden_dropout_prob=0.0,
                    max_position_embeddings=64, layer_norm_eps=1e-12)

    def __init__(self, **kw):
        super().__init__(**{**self.DEFAULTS, **kw})

    __getattr__ = dict.__getitem__

    @classmethod
    def from_json(cls, path):
        with open(path) as fh:
            return cls(**json.load(fh))


class AlbertAttention(nn.Module):
    def __init__(self, config):
        super().__init__()
        self.heads = config.num_attention_heads
        self.size = config.hidden_size // config.num_attention_heads
        for name in ("query", "key", "value", "dense"):
            setattr(self, name, nn.Linear(config.hidden_size, config.hidden_size))
        self.attention_dropout = nn.Dropout(config.attention_probs_dropout_prob)
        self.output_dropout = nn.Dropout(config.hidden_dropout_prob)
        self.LayerNorm = nn.LayerNorm(config.hidden_size, eps=config.layer_norm_eps)

    def transpose_for_scores(self, x):
        return x.unflatten(-1, (self.heads, self.size)).movedim(-2, 1)

    def forward(self, hidden, extended_mask=None, output_attentions=False):
        q, k, v = (self.transpose_for_scores(f(hidden)) for f in (self.query, self.key, self.value))
        scores = torch.einsum("bhid,bhjd->bhij", q, k) * self.size**-0.5
        if extended_mask is not None:
            scores = scores + extended_mask
        probs = scores.softmax(-1)
        context = torch.einsum("bhij,bhjd->bihd", self.attention_dropout(probs), v).flatten(-2)
        out = self.LayerNorm(hidden + self.output_dropout(self.dense(context)))
        return (out, probs) if output_attentions else (out,)


class AlbertLayer(nn.Module):
    def __init__(self, config):
        super().__init__()
        self.attention = AlbertAttention(config)
        self.ffn = nn.Sequential(OrderedDict(up=nn.Linear(config.hidden_size, config.intermediate_size), act=nn.GELU(approximate="tanh"),
                                             down=nn.Linear(config.intermediate_size, config.hidden_size)))
        self.full_layer_layer_norm = nn.LayerNorm(config.hidden_size, eps=config.layer_norm_eps)

    def forward(self, hidden, mask=None, output_attentions=False):
        out, *rest = self.attention(hidden, mask, output_attentions)
        return (self.full_layer_layer_norm(self.ffn(out) + out), *rest)


class AlbertModel(nn.Module):
    def __init__(self, config):
        super().__init__()
        self.config = config
        self.word_embeddings = nn.Embedding(config.vocab_size, config.embedding_size, padding_idx=0)
        self.position_embeddings = nn.Embedding(config.max_position_embeddings, config.embedding_size)
        self.norm = nn.LayerNorm(config.embedding_size, eps=config.layer_norm_eps)
        self.mapping_in = nn.Linear(config.embedding_size, config.hidden_size)
        self.shared_layer = AlbertLayer(config)

    @staticmethod
    def extend(attention_mask, dtype):
        """1 = token, 0 = padding  ->  0 and the lowest number of the dtype, [B, 1, 1, L]"""
        keep = attention_mask[:, None, None, :].to(dtype)
        return (1.0 - keep) * torch.finfo(dtype).min

    def forward(self, input_ids, attention_mask: Optional[torch.Tensor] = None, output_attentions=False):
        if attention_mask is None:
            attention_mask = torch.ones_like(input_ids)
        pos = torch.arange(input_ids.shape[1], device=input_ids.device)
        x = self.mapping_in(self.norm(self.word_embeddings(input_ids) + self.position_embeddings(pos)))
        mask = self.extend(attention_mask, x.dtype)
        maps = []
        for _ in range(self.config.num_hidden_layers):
            x, *a = self.shared_layer(x, mask, output_attentions)
            maps.extend(a)
        return (x, maps) if output_attentions else x
