"""Document search: turns a passage into K vectors (late-interaction index).

SeedPooler(dim, heads, seeds).forward(tokens, lengths) -> (vecs, maps)
    tokens   (B, T, dim)        encoder output, right-padded
    lengths  (B,) int           1..T real tokens
    vecs     (B, seeds, dim)    unit vectors
    maps     (B, heads, seeds, T)  attention of each head; rows sum to 1, zero on padding
The seeds are learned queries; each attends to the real tokens only.  vecs is the
normalised LayerNorm(seed + what it read).
"""
import torch
import torch.nn as nn
import torch.nn.functional as F


class SeedPooler(nn.Module):
    def __init__(self, dim, heads=4, seeds=8):
        super().__init__()
        self.seeds = nn.Parameter(torch.randn(seeds, dim) * dim ** -0.5)
        self.read = nn.MultiheadAttention(dim, heads, batch_first=True)
        self.norm = nn.LayerNorm(dim)

    def forward(self, tokens, lengths):
        B, T, _ = tokens.shape
        ignore = torch.arange(T, device=tokens.device) >= lengths.unsqueeze(1)
        seeds = self.seeds.expand(B, -1, -1)
        got, maps = self.read(seeds, tokens, tokens, key_padding_mask=ignore,
                              need_weights=True, average_attn_weights=False)
        return F.normalize(self.norm(seeds + got), dim=-1), maps
