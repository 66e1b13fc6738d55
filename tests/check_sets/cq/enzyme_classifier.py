"""Residue encoder for EC-number prediction (variable-length proteins, padded to the longest)."""
import torch
import torch.nn as nn

AA = "ACDEFGHIKLMNPQRSTVWY"


def tokenize(seqs):
    """list of str -> (ids (B, L) with 0 for padding)"""
    L = max(map(len, seqs))
    ids = torch.zeros(len(seqs), L, dtype=torch.long)
    for row, s in enumerate(seqs):
        ids[row, : len(s)] = torch.tensor([AA.index(a) + 1 for a in s])
    return ids


class ResidueMixer(nn.Module):
    """chain: (B, L, dim); void: (B, L) bool, True at padding. Padding gets no weight at all.

    Multi-head self-attention, head outputs are concatenated per residue.
    """

    def __init__(self, dim=32, strands=4):
        super().__init__()
        self.strands, self.sub = strands, dim // strands
        self.probe = nn.Linear(dim, dim)
        self.motif = nn.Linear(dim, dim)
        self.body = nn.Linear(dim, dim)
        self.fuse = nn.Linear(dim, dim)

    def unbraid(self, t):
        B, L, _ = t.shape
        return t.view(B, L, self.strands, self.sub).permute(0, 2, 1, 3)

    def forward(self, chain, void):
        B, L, dim = chain.shape
        probe, motif, body = (
            self.unbraid(f(chain)) for f in (self.probe, self.motif, self.body)
        )
        affinity = torch.einsum("bsid,bsjd->bsij", probe, motif) / self.sub ** 0.5
        affinity = affinity.masked_fill(void[:, None, None, :], 1e-9)
        affinity = affinity.softmax(dim=-1)
        mixed = torch.einsum("bsij,bsjd->bsid", affinity, body)
        mixed = mixed.contiguous().view(B, L, dim)
        return self.fuse(mixed)


class EnzymeClassifier(nn.Module):
    """ids (B, L) -> logits (B, n_classes)"""

    def __init__(self, dim=32, strands=4, depth=2, n_classes=7):
        super().__init__()
        self.embed = nn.Embedding(len(AA) + 1, dim, padding_idx=0)
        self.local = nn.Conv1d(dim, dim, 5, padding=2)
        self.norms = nn.ModuleList(nn.LayerNorm(dim) for _ in range(depth))
        self.mixers = nn.ModuleList(ResidueMixer(dim, strands) for _ in range(depth))
        self.head = nn.Linear(dim, n_classes)

    def forward(self, ids):
        void = ids == 0
        x = self.embed(ids)
        x = x + self.local(x.transpose(1, 2)).transpose(1, 2)
        x = x.masked_fill(void[..., None], 0.0)
        for norm, mixer in zip(self.norms, self.mixers):
            x = x + mixer(norm(x), void)
            x = x.masked_fill(void[..., None], 0.0)
        n = (~void).sum(1, keepdim=True)
        return self.head(x.sum(1) / n)
