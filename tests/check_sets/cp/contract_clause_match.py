"""Clause matching: compare a new contract with our template.

Each clause of the contract collects the template clauses that look like it
(soft alignment), then the pair is compared as in ESIM:
[a ; a~ ; a - a~ ; a * a~].
"""
import torch
import torch.nn as nn


class SoftAlign(nn.Module):
    """Single-head scaled dot-product alignment.

    contract (B, m, d), template (B, n, d), template_mask (B, n) True = real clause.
    Returns the aligned template vectors, one for each contract clause (B, m, d), and
    the alignment (B, m, n): for each contract clause a distribution over the
    template.
    """

    def __init__(self, d=32):
        super().__init__()
        self.query = nn.Linear(d, d, bias=False)
        self.key = nn.Linear(d, d, bias=False)
        self.d = d

    def forward(self, contract, template, template_mask=None):
        q = self.query(contract)
        k = self.key(template)
        sim = torch.bmm(q, k.transpose(1, 2)) / (self.d ** 0.5)
        if template_mask is not None:
            sim = sim.masked_fill(~template_mask.unsqueeze(1), torch.finfo(sim.dtype).min)
        align = nn.functional.softmax(sim, dim=1)
        return torch.bmm(align, template), align


class ClauseMatcher(nn.Module):
    def __init__(self, d=32, hidden=48, labels=3):
        super().__init__()
        self.align = SoftAlign(d)
        self.compare = nn.Sequential(nn.Linear(4 * d, hidden), nn.ReLU(), nn.Dropout(0.2))
        self.label = nn.Linear(hidden, labels)   # same / changed / new

    def forward(self, contract, template, template_mask=None):
        """Returns per-clause logits (B, m, labels) and the alignment (B, m, n)."""
        a_hat, align = self.align(contract, template, template_mask)
        feats = torch.cat([contract, a_hat, contract - a_hat, contract * a_hat], dim=-1)
        return self.label(self.compare(feats)), align
