"""Patch of GPT-2 attention: eager code replaced by F.scaled_dot_product_attention.

Everything else of the HF model stays, so the module receives the already extended mask of HF.
It is an autoregressive language model: position t may use the positions 0..t that are not
padding.  torch 2.x, CPU and A100.
"""
import torch
from torch import nn
import torch.nn.functional as F


class GPT2SdpaAttention(nn.Module):
    """
    hidden_states   (B, T, D)
    attention_mask  (B, 1, 1, T) additive, as HF makes it from the padding mask: 0.0 at tokens and
                    torch.finfo(dtype).min at padding (on the right), or None.  The causal part
                    is NOT in it, that is this module's business.
    returns         (B, T, D)
    """

    def __init__(self, D=64, n_head=4, attn_pdrop=0.1):
        super().__init__()
        self.n_head = n_head
        self.attn_pdrop = attn_pdrop
        self.c_attn = nn.Linear(D, 3 * D)
        self.c_proj = nn.Linear(D, D)
        self.resid_dropout = nn.Dropout(attn_pdrop)

    def _split_heads(self, t):
        B, T, D = t.shape
        return t.view(B, T, self.n_head, D // self.n_head).transpose(1, 2)

    def forward(self, hidden_states, attention_mask=None):
        query, key, value = self.c_attn(hidden_states).split(hidden_states.size(-1), dim=2)
        query, key, value = map(self._split_heads, (query, key, value))
        if attention_mask is not None:
            attention_mask = attention_mask.to(torch.bool)
        attn = F.scaled_dot_product_attention(
            query, key, value,
            attn_mask=attention_mask,
            dropout_p=self.attn_pdrop if self.training else 0.0,
        )
        attn = attn.transpose(1, 2).contiguous().flatten(2)
        return self.resid_dropout(self.c_proj(attn))
