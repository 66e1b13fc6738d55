"""Causal language-model block for de-identified ward notes.

Uses F.scaled_dot_product_attention. Padding is on the right.
"""
import torch
import torch.nn.functional as F
from torch import nn


class WardNoteBlock(nn.Module):
    def __init__(self, hidden: int = 32, heads: int = 4, dropout: float = 0.1):
        super().__init__()
        self.heads = heads
        self.p = dropout
        self.ln_1 = nn.LayerNorm(hidden)
        self.ln_2 = nn.LayerNorm(hidden)
        self.attn_in = nn.Linear(hidden, 3 * hidden)
        self.attn_out = nn.Linear(hidden, hidden)
        self.ff = nn.Sequential(
            nn.Linear(hidden, 4 * hidden), nn.GELU(), nn.Linear(4 * hidden, hidden), nn.Dropout(dropout)
        )

    def attention(self, x, attention_mask):
        b, t, c = x.shape
        q, k, v = self.attn_in(x).chunk(3, dim=-1)
        q = q.view(b, t, self.heads, -1).transpose(1, 2)
        k = k.view(b, t, self.heads, -1).transpose(1, 2)
        v = v.view(b, t, self.heads, -1).transpose(1, 2)
        p = self.p if self.training else 0.0
        if attention_mask is None:
            y = F.scaled_dot_product_attention(q, k, v, dropout_p=p, is_causal=True)
        else:
            # SDPA boolean convention: True = may attend
            causal = torch.ones(t, t, dtype=torch.bool, device=x.device).tril()
            allowed = causal[None, None] & attention_mask.bool()[:, None, None, :]
            y = F.scaled_dot_product_attention(q, k, v, attn_mask=allowed, dropout_p=p)
        return self.attn_out(y.transpose(1, 2).reshape(b, t, c))

    def forward(self, x, attention_mask=None):
        """x: (batch, tokens, hidden); attention_mask: (batch, tokens), 1 = token, 0 = padding
        (tokenizer convention). Rows of padded positions are meaningless, drop them from the loss."""
        x = x + self.attention(self.ln_1(x), attention_mask)
        return x + self.ff(self.ln_2(x))
