"""Transformer encoder for MHC-I peptide binding. Peptides are 8-14 residues, padded with <pad> = 0."""
import torch
import torch.nn as nn


class PeptideSelfAttention(nn.Module):
    def __init__(self, hidden, num_heads, dropout):
        super().__init__()
        self.num_heads = num_heads
        self.head_size = hidden // num_heads
        self.query = nn.Linear(hidden, hidden)
        self.key = nn.Linear(hidden, hidden)
        self.value = nn.Linear(hidden, hidden)
        self.dense = nn.Linear(hidden, hidden)
        self.dropout = nn.Dropout(dropout)

    def transpose_for_scores(self, x):
        return x.view(*x.shape[:2], self.num_heads, self.head_size).permute(0, 2, 1, 3)

    def forward(self, x, mask):
        q = self.transpose_for_scores(self.query(x))
        k = self.transpose_for_scores(self.key(x))
        v = self.transpose_for_scores(self.value(x))
        scores = torch.matmul(q, k.transpose(-1, -2)) / self.head_size**0.5
        scores = scores.masked_fill(mask == 0, torch.finfo(scores.dtype).min)
        probs = self.dropout(scores.softmax(dim=-1))
        ctx = torch.matmul(probs, v).permute(0, 2, 1, 3).contiguous()
        return self.dense(ctx.view(*x.shape))


class PeptideEncoder(nn.Module):
    """tokens: (B, L) with 0 for padding. Returns residue embeddings (B, L, hidden).

    The embedding of a real residue does not depend on the amount of padding.
    """

    def __init__(self, vocab=25, hidden=32, num_heads=4, layers=2, max_len=16, dropout=0.1):
        super().__init__()
        self.tok = nn.Embedding(vocab, hidden, padding_idx=0)
        self.pos = nn.Embedding(max_len, hidden)
        self.att = nn.ModuleList([PeptideSelfAttention(hidden, num_heads, dropout) for _ in range(layers)])
        self.ffn = nn.ModuleList(
            [nn.Sequential(nn.Linear(hidden, 64), nn.GELU(), nn.Linear(64, hidden)) for _ in range(layers)]
        )
        self.ln_a = nn.ModuleList([nn.LayerNorm(hidden) for _ in range(layers)])
        self.ln_f = nn.ModuleList([nn.LayerNorm(hidden) for _ in range(layers)])

    @staticmethod
    def make_pad_mask(tokens):
        # 1 for residues, 0 for padding; broadcast over heads
        return (tokens != 0).unsqueeze(1).unsqueeze(3)

    def forward(self, tokens):
        mask = self.make_pad_mask(tokens)
        x = self.tok(tokens) + self.pos.weight[: tokens.size(1)]
        for att, ffn, ln_a, ln_f in zip(self.att, self.ffn, self.ln_a, self.ln_f):
            x = ln_a(x + att(x, mask))
            x = ln_f(x + ffn(x))
        return x
