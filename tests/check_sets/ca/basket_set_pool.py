"""Order-free pooling of shopping baskets (Set Transformer: one SAB, then PMA).

Heads are folded in front of the batch, as in the authors' code: index = head * B + b.
Different from the authors' code we scale by the width of one head.
"""
import math
import torch
import torch.nn as nn
import torch.nn.functional as F


class MAB(nn.Module):
    def __init__(self, dim_Q, dim_K, dim_V, num_heads):
        super().__init__()
        self.dim_V = dim_V
        self.num_heads = num_heads
        self.fc_q = nn.Linear(dim_Q, dim_V)
        self.fc_k = nn.Linear(dim_K, dim_V)
        self.fc_v = nn.Linear(dim_K, dim_V)
        self.fc_o = nn.Linear(dim_V, dim_V)
        self.ln0 = nn.LayerNorm(dim_V)
        self.ln1 = nn.LayerNorm(dim_V)

    def forward(self, Q, K, present):
        Q = self.fc_q(Q)
        K, V = self.fc_k(K), self.fc_v(K)

        dim_split = self.dim_V // self.num_heads
        Q_ = torch.cat(Q.split(dim_split, 2), 0)
        K_ = torch.cat(K.split(dim_split, 2), 0)
        V_ = torch.cat(V.split(dim_split, 2), 0)

        A = Q_.bmm(K_.transpose(1, 2)) / math.sqrt(dim_split)
        keep = present.repeat(self.num_heads, 1).unsqueeze(1)     # H*B, 1, N
        A = torch.softmax(A.masked_fill(~keep, -1e9), 2)
        O = torch.cat((Q_ + A.bmm(V_)).split(Q.size(0), 0), 2)
        O = self.ln0(O)
        O = O + F.relu(self.fc_o(O))
        return self.ln1(O)


class BasketEncoder(nn.Module):
    """Basket of items [B, N, dim_in] + presence [B, N] -> [B, seeds * dim]."""

    def __init__(self, dim_in=12, dim=24, num_heads=3, num_seeds=2):
        super().__init__()
        self.sab = MAB(dim_in, dim_in, dim, num_heads)
        self.S = nn.Parameter(torch.empty(1, num_seeds, dim))
        nn.init.xavier_uniform_(self.S)
        self.pma = MAB(dim, dim, dim, num_heads)

    def forward(self, items, present):
        h = self.sab(items, items, present)
        z = self.pma(self.S.repeat(items.size(0), 1, 1), h, present)
        return z.flatten(1)


if __name__ == "__main__":
    enc = BasketEncoder()
    x = torch.randn(4, 7, 12)
    present = torch.arange(7)[None] < torch.tensor([7, 3, 5, 1])[:, None]
    print(enc(x, present).shape)
