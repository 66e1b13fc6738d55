import torch
import torch.nn as nn
import torch.nn.functional as F


class BartAttn(nn.Module):
    def __init__(self, embed_dim, num_heads):
        super().__init__()
        self.num_heads, self.head_dim = num_heads, embed_dim // num_heads
        self.q_proj = nn.Linear(embed_dim, embed_dim)
        self.k_proj = nn.Linear(embed_dim, embed_dim)
        self.v_proj = nn.Linear(embed_dim, embed_dim)
        self.out_proj = nn.Linear(embed_dim, embed_dim)

    def _shape(self, t):
        return t.view(t.size(0), -1, self.num_heads, self.head_dim).transpose(1, 2).contiguous()

    def forward(self, x, kv=None, padding_mask=None, causal=False):
        kv = x if kv is None else kv
        q, k, v = self._shape(self.q_proj(x)), self._shape(self.k_proj(kv)), self._shape(self.v_proj(kv))
        attn_mask = None
        if padding_mask is not None:
            attn_mask = padding_mask[:, None, None, :]
        y = F.scaled_dot_product_attention(q, k, v, attn_mask=attn_mask, is_causal=causal)
        return self.out_proj(y.transpose(1, 2).flatten(2))


class BartDecoderLayer(nn.Module):
    """Post-norm decoder layer.

    hidden: (B, T, D)
    encoder_hidden: (B, S, D)
    encoder_padding_mask: (B, S) bool, True where the source token is padding
    """

    def __init__(self, embed_dim=32, num_heads=4, ffn_dim=64, dropout=0.1):
        super().__init__()
        self.self_attn = BartAttn(embed_dim, num_heads)
        self.self_attn_layer_norm = nn.LayerNorm(embed_dim)
        self.encoder_attn = BartAttn(embed_dim, num_heads)
        self.encoder_attn_layer_norm = nn.LayerNorm(embed_dim)
        self.fc1 = nn.Linear(embed_dim, ffn_dim)
        self.fc2 = nn.Linear(ffn_dim, embed_dim)
        self.final_layer_norm = nn.LayerNorm(embed_dim)
        self.dropout = dropout

    def _drop(self, x):
        return F.dropout(x, p=self.dropout, training=self.training)

    def forward(self, hidden, encoder_hidden, encoder_padding_mask=None):
        residual = hidden
        hidden = self._drop(self.self_attn(hidden, causal=True))
        hidden = self.self_attn_layer_norm(residual + hidden)
        residual = hidden
        hidden = self._drop(self.encoder_attn(hidden, encoder_hidden, padding_mask=encoder_padding_mask))
        hidden = self.encoder_attn_layer_norm(residual + hidden)
        residual = hidden
        hidden = self._drop(self.fc2(F.gelu(self.fc1(hidden))))
        return self.final_layer_norm(residual + hidden)
