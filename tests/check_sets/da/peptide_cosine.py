import torch
import torch.nn.functional as F
from torch import nn


class PeptideCosine(nn.Module):
    """Cosine-similarity attention between peptides and spectra peaks.

    peptide (B, T, dim), peaks (B, S, dim), quiet (B, S) True = no peak there
    (never all of them).  Per head: softmax(exp(tau) * cos(q, k)).
    """

    def __init__(self, dim=24, heads=4, tau=1.5):
        super().__init__()
        self.heads = heads
        self.tau = nn.Parameter(torch.full((heads, 1, 1), float(tau)))
        self.q = nn.Linear(dim, dim, bias=False)
        self.k = nn.Linear(dim, dim, bias=False)
        self.v = nn.Linear(dim, dim, bias=False)
        self.o = nn.Linear(dim, dim)

    def forward(self, peptide, peaks, quiet=None):
        q, k, v = (f(t).unflatten(-1, (self.heads, -1)).transpose(1, 2)
                   for f, t in ((self.q, peptide), (self.k, peaks), (self.v, peaks)))
        q, k = F.normalize(q), F.normalize(k)
        s = (q @ k.mT) * self.tau.clamp(max=4.6).exp()
        if quiet is not None:
            s = s.masked_fill(quiet[:, None, None, :], float("-inf"))
        return self.o((s.softmax(-1) @ v).transpose(1, 2).flatten(2))
