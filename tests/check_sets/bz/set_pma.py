"""Pooling by multihead attention (PMA) and MAB from "Set Transformer", Lee et al. 2019.

Differences from juho-lee/set_transformer, on purpose:
  - logits are divided by the square root of the *head* size (the original divides by that of dim_V);
  - sets of different size can be batched with `present` (B, N), 1 = element, 0 = filler.
As in the original, the residual of a MAB is the projected query (per head), not the raw input.
"""
import torch
from torch import nn


class MAB(nn.Module):
    def __init__(self, dim_Q, dim_K, dim_V, num_heads, ln=False):
        super(MAB, self).__init__()
        self.dim_V = dim_V
        self.num_heads = num_heads
        self.fc_q = nn.Linear(dim_Q, dim_V)
        self.fc_k = nn.Linear(dim_K, dim_V)
        self.fc_v = nn.Linear(dim_K, dim_V)
        self.ln0 = nn.LayerNorm(dim_V) if ln else nn.Identity()
        self.ln1 = nn.LayerNorm(dim_V) if ln else nn.Identity()
        self.fc_o = nn.Linear(dim_V, dim_V)

    def forward(self, Q, K, present=None):
        Q = self.fc_q(Q)
        K, V = self.fc_k(K), self.fc_v(K)

        dim_split = self.dim_V // self.num_heads
        # heads stacked in front of the batch: (H*B, N, dim_split)
        Q_ = torch.cat(Q.split(dim_split, 2), 0)
        K_ = torch.cat(K.split(dim_split, 2), 0)
        V_ = torch.cat(V.split(dim_split, 2), 0)

        logits = Q_.bmm(K_.transpose(1, 2)) * dim_split ** -0.5
        if present is not None:
            absent = (present == 0).repeat(self.num_heads, 1).unsqueeze(1)
            logits = logits.masked_fill(absent, float('-inf'))
        A = torch.softmax(logits, 2)
        O = torch.cat((Q_ + A.bmm(V_)).split(Q.size(0), 0), 2)
        O = self.ln0(O)
        O = O + torch.relu(self.fc_o(O))
        return self.ln1(O)


class PMA(nn.Module):
    """k learned seeds look at the set."""

    def __init__(self, dim, num_heads, num_seeds, ln=False):
        super(PMA, self).__init__()
        self.S = nn.Parameter(torch.empty(1, num_seeds, dim))
        nn.init.xavier_uniform_(self.S)
        self.mab = MAB(dim, dim, dim, num_heads, ln=ln)

    def forward(self, X, present=None):
        return self.mab(self.S.repeat(X.size(0), 1, 1), X, present)


if __name__ == '__main__':
    pma = PMA(12, 3, 2, ln=True)
    print(pma(torch.randn(4, 6, 12), torch.ones(4, 6)).shape)
