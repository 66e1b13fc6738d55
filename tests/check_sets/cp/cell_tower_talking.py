"""Talking-heads attention (Shazeer et al., 2020) over the neighbours of a cell tower.

Input is one row per tower of a cluster, used to predict handover failures.
The head axis is mixed by a learned matrix twice: on the logits and on the
weights.  Because of the second mixing, the final weights of a row need not sum
to one -- that is how the paper defines it.
"""
import torch
import torch.nn as nn


class TalkingHeads(nn.Module):
    def __init__(self, d_model: int = 48, n_heads: int = 6, dropout: float = 0.0):
        super().__init__()
        self.n_heads = n_heads
        self.d_k = d_model // n_heads
        self.to_q = nn.Linear(d_model, d_model)
        self.to_k = nn.Linear(d_model, d_model)
        self.to_v = nn.Linear(d_model, d_model)
        self.to_out = nn.Linear(d_model, d_model)
        self.mix_logits = nn.Parameter(torch.eye(n_heads) + 0.1 * torch.randn(n_heads, n_heads))
        self.mix_weights = nn.Parameter(torch.eye(n_heads) + 0.1 * torch.randn(n_heads, n_heads))
        self.dropout = nn.Dropout(dropout)

    def split(self, t):
        return t.unflatten(-1, (self.n_heads, self.d_k)).transpose(-3, -2)

    def forward(self, towers, absent=None):
        """
        towers: (batch, n, d_model)
        absent: (batch, n) bool, True for empty slots of the cluster; nobody may
                attend to those. Clusters always have at least one real tower.
        """
        q, k, v = self.split(self.to_q(towers)), self.split(self.to_k(towers)), self.split(self.to_v(towers))
        logits = torch.matmul(q, k.mT) * (self.d_k ** -0.5)               # b h i j
        logits = torch.einsum("bhij,hg->bgij", logits, self.mix_logits)
        if absent is not None:
            # mask after the mixing, so that no infinity gets mixed between heads
            logits = logits.masked_fill(absent[:, None, None, :], -torch.inf)
        weights = logits.softmax(dim=-1)
        weights = torch.einsum("bhij,hg->bgij", weights, self.mix_weights)
        weights = self.dropout(weights)
        out = torch.matmul(weights, v)
        return self.to_out(out.transpose(-3, -2).flatten(-2))
