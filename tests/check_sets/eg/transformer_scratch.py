"""Transformer from scratch following "Attention is all you need", my notes of the video course.

src: (N, S) ids, 0 is padding; every sentence has at least one token. Returns (N, S, embed_size).
"""
import torch
import torch.nn as nn


class SelfAttention(nn.Module):
    """Multi-head scaled dot-product attention of the paper, head dimension embed_size / heads.

    values, keys: (N, key_len, E), query: (N, query_len, E),
    mask: (N, 1, 1, key_len), 1 = word, 0 = padding.
    """

    def __init__(self, embed_size, heads):
        super(SelfAttention, self).__init__()
        self.embed_size = embed_size
        self.heads = heads
        self.head_dim = embed_size // heads
        assert self.head_dim * heads == embed_size, "Embedding size needs to be divisible by heads"
        self.values = nn.Linear(embed_size, embed_size)
        self.keys = nn.Linear(embed_size, embed_size)
        self.queries = nn.Linear(embed_size, embed_size)
        self.fc_out = nn.Linear(embed_size, embed_size)

    def forward(self, values, keys, query, mask):
        N = query.shape[0]
        value_len, key_len, query_len = values.shape[1], keys.shape[1], query.shape[1]
        values = self.values(values).reshape(N, value_len, self.heads, self.head_dim)
        keys = self.keys(keys).reshape(N, key_len, self.heads, self.head_dim)
        queries = self.queries(query).reshape(N, query_len, self.heads, self.head_dim)

        # queries: (N, query_len, heads, head_dim), keys: (N, key_len, heads, head_dim)
        energy = torch.einsum("nqhd,nkhd->nhqk", [queries, keys])
        if mask is not None:
            energy = energy.masked_fill(mask == 0, float("-1e20"))
        attention = torch.softmax(energy / (self.embed_size ** (1 / 2)), dim=3)
        out = torch.einsum("nhql,nlhd->nqhd", [attention, values]).reshape(
            N, query_len, self.heads * self.head_dim)
        return self.fc_out(out)


class TransformerBlock(nn.Module):
    def __init__(self, embed_size, heads, dropout, forward_expansion):
        super(TransformerBlock, self).__init__()
        self.attention = SelfAttention(embed_size, heads)
        self.norm1 = nn.LayerNorm(embed_size)
        self.norm2 = nn.LayerNorm(embed_size)
        self.feed_forward = nn.Sequential(
            nn.Linear(embed_size, forward_expansion * embed_size), nn.ReLU(),
            nn.Linear(forward_expansion * embed_size, embed_size))
        self.dropout = nn.Dropout(dropout)

    def forward(self, value, key, query, mask):
        x = self.dropout(self.norm1(self.attention(value, key, query, mask) + query))
        return self.dropout(self.norm2(self.feed_forward(x) + x))


class Encoder(nn.Module):
    def __init__(self, vocab=40, embed_size=32, num_layers=2, heads=4, max_length=50, dropout=0.1):
        super(Encoder, self).__init__()
        self.word_embedding = nn.Embedding(vocab, embed_size)
        self.position_embedding = nn.Embedding(max_length, embed_size)
        self.layers = nn.ModuleList([TransformerBlock(embed_size, heads, dropout, 4) for _ in range(num_layers)])
        self.dropout = nn.Dropout(dropout)

    def forward(self, src):
        mask = (src != 0).unsqueeze(1).unsqueeze(2)
        positions = torch.arange(src.shape[1], device=src.device)
        out = self.dropout(self.word_embedding(src) + self.position_embedding(positions))
        for layer in self.layers:
            out = layer(out, out, out, mask)
        return out
