"""Contact prediction from protein language model attention maps (ESM-like regression).

The per-head attention probabilities are symmetrised, APC-corrected and fed to a
logistic regression, so `ResidueAttention` returns them: [B, H, L, L], every row a
probability distribution over residues.
"""
import math

import torch
import torch.nn as nn

AA = "ACDEFGHIKLMNPQRSTVWY"
PAD = len(AA)


def encode(seqs):
    n = max(map(len, seqs))
    out = torch.full((len(seqs), n), PAD)
    for i, s in enumerate(seqs):
        out[i, : len(s)] = torch.tensor([AA.index(c) for c in s])
    return out


def apc(x):
    """Average product correction."""
    a1 = x.sum(-1, keepdims=True)
    a2 = x.sum(-2, keepdims=True)
    return x - a1 * a2 / x.sum((-1, -2), keepdims=True)


class ResidueAttention(nn.Module):
    def __init__(self, dim, heads, dropout=0.1):
        super().__init__()
        self.heads = heads
        self.head_dim = dim // heads
        self.q_proj = nn.Linear(dim, dim)
        self.k_proj = nn.Linear(dim, dim)
        self.v_proj = nn.Linear(dim, dim)
        self.out_proj = nn.Linear(dim, dim)
        self.attn_dropout = nn.Dropout(dropout)

    def forward(self, x, padding_mask=None):
        """padding_mask: bool [B, L], True at padding (each sequence has at least one residue)."""
        B, L, D = x.shape

        def heads(t):
            return t.view(B, L, self.heads, self.head_dim).permute(0, 2, 1, 3)

        q = heads(self.q_proj(x)) / math.sqrt(self.head_dim)
        k, v = heads(self.k_proj(x)), heads(self.v_proj(x))
        logits = torch.matmul(q, k.transpose(-1, -2))
        if padding_mask is not None:
            logits = logits.masked_fill(padding_mask[:, None, None, :], float("-inf"))
        probs = torch.softmax(logits.float(), dim=-1).type_as(logits)
        probs = self.attn_dropout(probs)
        ctx = torch.matmul(probs, v).permute(0, 2, 1, 3).reshape(B, L, D)
        return self.out_proj(ctx), probs


class ContactNet(nn.Module):
    def __init__(self, dim=40, heads=4, depth=3):
        super().__init__()
        self.emb = nn.Embedding(len(AA) + 1, dim, padding_idx=PAD)
        self.att = nn.ModuleList([ResidueAttention(dim, heads) for _ in range(depth)])
        self.ln = nn.ModuleList([nn.LayerNorm(dim) for _ in range(depth)])
        self.regression = nn.Linear(heads * depth, 1)

    def forward(self, tokens):
        pad = tokens == PAD
        x, maps = self.emb(tokens), []
        for a, n in zip(self.att, self.ln):
            y, p = a(n(x), pad)
            x = x + y
            maps.append(p)
        m = torch.cat(maps, dim=1)
        m = m * (~pad)[:, None, :, None].to(m)
        m = apc(m + m.transpose(-1, -2))
        return self.regression(m.permute(0, 2, 3, 1)).squeeze(-1).sigmoid()


if __name__ == "__main__":
    print(ContactNet()(encode(["MKTAYIAKQR", "GSHM"])).shape)
