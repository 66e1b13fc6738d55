"""Encoder self-attention for translation. Heads are folded into the batch axis (bmm is fastest that way)."""
import torch
from torch import nn
from torch.nn import functional as F


class MultiheadAttention(nn.Module):
    """
    forward(query, key, value, key_padding_mask) -> (attn, attn_weights)
        query [bsz, tgt_len, embed_dim]; key, value [bsz, src_len, embed_dim]
        key_padding_mask [bsz, src_len], padding elements are indicated by 1s
        attn_weights [bsz, num_heads, tgt_len, src_len]
    """

    def __init__(self, embed_dim=32, num_heads=4, dropout=0.0, bias=True):
        super().__init__()
        self.embed_dim, self.num_heads, self.dropout = embed_dim, num_heads, dropout
        self.head_dim = embed_dim // num_heads
        assert self.head_dim * num_heads == embed_dim, "embed_dim must be divisible by num_heads"
        self.scaling = self.head_dim ** -0.5
        self.k_proj = nn.Linear(embed_dim, embed_dim, bias=bias)
        self.v_proj = nn.Linear(embed_dim, embed_dim, bias=bias)
        self.q_proj = nn.Linear(embed_dim, embed_dim, bias=bias)
        self.out_proj = nn.Linear(embed_dim, embed_dim, bias=bias)
        self.reset_parameters()

    def reset_parameters(self):
        for lin in (self.k_proj, self.v_proj, self.q_proj):
            nn.init.xavier_uniform_(lin.weight, gain=2 ** -0.5)
        nn.init.xavier_uniform_(self.out_proj.weight)
        if self.out_proj.bias is not None:
            nn.init.constant_(self.out_proj.bias, 0.0)

    def _fold(self, t):
        bsz, n, _ = t.shape
        t = t.view(bsz, n, self.num_heads, self.head_dim).transpose(1, 2)
        return t.reshape(bsz * self.num_heads, n, self.head_dim)

    def forward(self, query, key, value, key_padding_mask=None):
        bsz, tgt_len, _ = query.shape
        src_len = key.size(1)
        q = self._fold(self.q_proj(query) * self.scaling)
        k = self._fold(self.k_proj(key))
        v = self._fold(self.v_proj(value))

        attn_weights = torch.bmm(q, k.transpose(1, 2))
        if key_padding_mask is not None:
            mask = key_padding_mask.bool().unsqueeze(1).repeat(self.num_heads, 1, 1)
            attn_weights = attn_weights.masked_fill(mask, torch.finfo(attn_weights.dtype).min)
        attn_weights = F.softmax(attn_weights, dim=-1)
        attn_probs = F.dropout(attn_weights, p=self.dropout, training=self.training)

        attn = torch.bmm(attn_probs, v)
        attn = attn.view(bsz, self.num_heads, tgt_len, self.head_dim).transpose(1, 2)
        attn = attn.reshape(bsz, tgt_len, self.embed_dim)
        return self.out_proj(attn), attn_weights.view(bsz, self.num_heads, tgt_len, src_len)
