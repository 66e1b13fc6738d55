"""Screening of a patient's drug list for interactions (hospital pharmacy).

A list of drugs is a set: no positions.  One self-attention block, then a
learned query collects the list into a single vector (pooling by attention),
then a logit per adverse-event class.

`present` is a boolean [batch, drugs], True where there is a drug.
"""
import torch
from torch import nn


class DrugSetBlock(nn.Module):
    def __init__(self, dim, heads, drop=0.1):
        super().__init__()
        self.att = nn.MultiheadAttention(dim, heads, dropout=drop, batch_first=True)
        self.mlp = nn.Sequential(nn.Linear(dim, dim * 2), nn.ReLU(), nn.Linear(dim * 2, dim))
        self.n1 = nn.LayerNorm(dim)
        self.n2 = nn.LayerNorm(dim)

    def forward(self, x, present):
        h = self.n1(x)
        a, _ = self.att(h, h, h, key_padding_mask=~present, need_weights=False)
        x = x + a
        return x + self.mlp(self.n2(x))


class InteractionScreen(nn.Module):
    def __init__(self, n_drugs=300, n_events=7, dim=24, heads=3):
        super().__init__()
        self.drug = nn.Embedding(n_drugs, dim)
        self.dose = nn.Linear(1, dim)
        self.block = DrugSetBlock(dim, heads)
        self.seed = nn.Parameter(torch.randn(1, 1, dim) * 0.1)
        self.pool = nn.MultiheadAttention(dim, heads, batch_first=True)
        self.head = nn.Linear(dim, n_events)

    def forward(self, drugs, doses, present):
        x = self.drug(drugs) + self.dose(doses.unsqueeze(-1))
        x = self.block(x, present)
        seed = self.seed.expand(x.size(0), -1, -1)
        pooled, who = self.pool(seed, x, x, key_padding_mask=~present)
        # who: [batch, 1, drugs], mean over heads, shown to the pharmacist
        return self.head(pooled.squeeze(1)), who.squeeze(1)
