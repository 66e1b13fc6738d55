"""Decoder layer of the dictation model (BART-like, post-norm).

Self-attention over the text so far, then cross-attention into the acoustic encoder.
Text and audio have, of course, different lengths.
"""
from typing import Optional

import torch
from torch import Tensor, nn
from torch.nn import functional as F


class DictationAttention(nn.Module):
    def __init__(self, embed_dim: int, num_heads: int, dropout: float = 0.0):
        super().__init__()
        self.num_heads = num_heads
        self.head_dim = embed_dim // num_heads
        self.scaling = self.head_dim ** -0.5
        self.dropout = dropout
        self.q_proj = nn.Linear(embed_dim, embed_dim)
        self.k_proj = nn.Linear(embed_dim, embed_dim)
        self.v_proj = nn.Linear(embed_dim, embed_dim)
        self.out_proj = nn.Linear(embed_dim, embed_dim)

    def _shape(self, t: Tensor, seq_len: int, bsz: int) -> Tensor:
        return t.view(bsz, seq_len, self.num_heads, self.head_dim).transpose(1, 2)

    def forward(self, x: Tensor, kv: Optional[Tensor] = None, mask: Optional[Tensor] = None) -> Tensor:
        """mask is additive and broadcasts to [bsz, heads, tgt_len, src_len]."""
        source = x if kv is None else kv
        bsz, src_len, embed_dim = source.size()

        q = self._shape(self.q_proj(x) * self.scaling, src_len, bsz)
        k = self._shape(self.k_proj(source), src_len, bsz)
        v = self._shape(self.v_proj(source), src_len, bsz)

        w = q @ k.transpose(2, 3)
        if mask is not None:
            w = w + mask
        w = F.softmax(w.float(), dim=-1).type_as(w)
        w = F.dropout(w, p=self.dropout, training=self.training)
        out = (w @ v).transpose(1, 2).reshape(x.shape)
        return self.out_proj(out)


class DictationDecoderLayer(nn.Module):
    def __init__(self, d_model: int = 32, heads: int = 4, ffn: int = 64, dropout: float = 0.1):
        super().__init__()
        self.self_attn = DictationAttention(d_model, heads, dropout)
        self.cross_attn = DictationAttention(d_model, heads, dropout)
        self.norms = nn.ModuleList(nn.LayerNorm(d_model) for _ in range(3))
        self.fc1 = nn.Linear(d_model, ffn)
        self.fc2 = nn.Linear(ffn, d_model)
        self.drop = nn.Dropout(dropout)

    def forward(self, text: Tensor, audio: Tensor, audio_mask: Optional[Tensor] = None) -> Tensor:
        """text [B, T, D], audio [B, S, D], audio_mask [B, S] True = real frame."""
        T = text.size(1)
        future = torch.triu(text.new_full((T, T), float("-inf")), diagonal=1)
        text = self.norms[0](text + self.drop(self.self_attn(text, mask=future)))
        pad = None
        if audio_mask is not None:
            pad = text.new_zeros(audio_mask.shape).masked_fill(~audio_mask, torch.finfo(text.dtype).min)
            pad = pad[:, None, None, :]
        text = self.norms[1](text + self.drop(self.cross_attn(text, audio, pad)))
        return self.norms[2](text + self.drop(self.fc2(F.gelu(self.fc1(text)))))
