"""Q-Former layer: learned query tokens and text share the self attention, and
only the query tokens cross-attend to the frozen image features."""
import math

import torch
import torch.nn as nn


class BertAttention(nn.Module):
    def __init__(self, hidden, heads, kv_width=None, eps=1e-12, p=0.1):
        super().__init__()
        self.num_attention_heads = heads
        self.attention_head_size = hidden // heads
        kv_width = kv_width or hidden
        self.query = nn.Linear(hidden, hidden)
        self.key = nn.Linear(kv_width, hidden)
        self.value = nn.Linear(kv_width, hidden)
        self.dropout = nn.Dropout(p)
        self.dense = nn.Linear(hidden, hidden)
        self.LayerNorm = nn.LayerNorm(hidden, eps=eps)

    def transpose_for_scores(self, x):
        new_x_shape = x.size()[:-1] + (self.num_attention_heads, self.attention_head_size)
        return x.view(*new_x_shape).permute(0, 2, 1, 3)

    def forward(self, hidden_states, context=None, attention_mask=None):
        context = hidden_states if context is None else context
        q = self.transpose_for_scores(self.query(hidden_states))
        k = self.transpose_for_scores(self.key(context))
        v = self.transpose_for_scores(self.value(context))
        attention_scores = torch.matmul(q, k.transpose(-1, -2))
        attention_scores = attention_scores / math.sqrt(self.attention_head_size)
        if attention_mask is not None:
            attention_scores = attention_scores + attention_mask
        attention_probs = nn.Softmax(dim=-1)(attention_scores)
        context_layer = torch.matmul(self.dropout(attention_probs), v)
        context_layer = context_layer.permute(0, 2, 1, 3).contiguous().flatten(2)
        out = self.dropout(self.dense(context_layer))
        return self.LayerNorm(out + hidden_states)


def extend_mask(mask, dtype):
    """[B, L] with 1 = token, 0 = padding  ->  additive [B, 1, 1, L]"""
    ext = mask[:, None, None, :].to(dtype)
    return (1.0 - ext) * torch.finfo(dtype).min


class QFormerLayer(nn.Module):
    def __init__(self, hidden=48, heads=4, vision_width=80, intermediate=96):
        super().__init__()
        self.attention = BertAttention(hidden, heads)
        self.crossattention = BertAttention(hidden, heads, vision_width)
        self.ffn_query = nn.Sequential(nn.Linear(hidden, intermediate), nn.GELU(), nn.Linear(intermediate, hidden))
        self.ffn_text = nn.Sequential(nn.Linear(hidden, intermediate), nn.GELU(), nn.Linear(intermediate, hidden))
        self.ln_q = nn.LayerNorm(hidden)
        self.ln_t = nn.LayerNorm(hidden)

    def forward(self, query_tokens, text, image, text_mask=None, image_mask=None):
        nq = query_tokens.shape[1]
        x = torch.cat([query_tokens, text], dim=1)
        m = None
        if text_mask is not None:
            ones = text_mask.new_ones(text_mask.shape[0], nq)
            m = extend_mask(torch.cat([ones, text_mask], dim=1), x.dtype)
        x = self.attention(x, attention_mask=m)
        q, t = x[:, :nq], x[:, nq:]
        im = None if image_mask is None else extend_mask(image_mask, x.dtype)
        q = self.crossattention(q, image, im)
        q = self.ln_q(q + self.ffn_query(q))
        t = self.ln_t(t + self.ffn_text(t))
        return torch.cat([q, t], dim=1)
