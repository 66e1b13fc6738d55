import torch
from torch import nn


class MultiheadAttention(nn.Module):
    """query: Time x Batch x Channel;  key, value: Source x Batch x Channel
    key_padding_mask: Batch x Source, where padding elements are indicated by 1s
    """

    def __init__(self, embed_dim, num_heads):
        super().__init__()
        self.embed_dim, self.num_heads = embed_dim, num_heads
        self.head_dim = embed_dim // num_heads
        self.scaling = self.head_dim**-0.5
        self.q_proj = nn.Linear(embed_dim, embed_dim)
        self.k_proj = nn.Linear(embed_dim, embed_dim)
        self.v_proj = nn.Linear(embed_dim, embed_dim)
        self.out_proj = nn.Linear(embed_dim, embed_dim)

    def forward(self, query, key, value, key_padding_mask=None):
        tgt_len, bsz, _ = query.shape
        src_len = key.shape[0]
        q = self.q_proj(query) * self.scaling
        q = q.contiguous().view(tgt_len, bsz * self.num_heads, self.head_dim).transpose(0, 1)
        k = self.k_proj(key).contiguous().view(src_len, bsz * self.num_heads, self.head_dim).transpose(0, 1)
        v = self.v_proj(value).contiguous().view(src_len, bsz * self.num_heads, self.head_dim).transpose(0, 1)

        attn_weights = torch.bmm(q, k.transpose(1, 2))
        if key_padding_mask is not None:
            pad = key_padding_mask.bool().unsqueeze(1).repeat(self.num_heads, 1, 1)
            attn_weights = attn_weights.masked_fill(pad, float("-inf"))
        attn = torch.bmm(torch.softmax(attn_weights, dim=-1), v)
        attn = attn.transpose(0, 1).contiguous().view(tgt_len, bsz, self.embed_dim)
        return self.out_proj(attn)
