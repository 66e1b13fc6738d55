"""Set Transformer (Lee et al., 2019): MAB, SAB, PMA.

Sets are padded to the same size; `n` gives the number of elements of each set.
"""
import torch
import torch.nn as nn
import torch.nn.functional as F


class MAB(nn.Module):
    def __init__(self, dim_Q, dim_K, dim_V, num_heads, ln=False):
        super().__init__()
        self.dim_V, self.num_heads = dim_V, num_heads
        self.fc_q = nn.Linear(dim_Q, dim_V)
        self.fc_k = nn.Linear(dim_K, dim_V)
        self.fc_v = nn.Linear(dim_K, dim_V)
        self.ln0 = nn.LayerNorm(dim_V) if ln else nn.Identity()
        self.ln1 = nn.LayerNorm(dim_V) if ln else nn.Identity()
        self.fc_o = nn.Linear(dim_V, dim_V)

    def forward(self, Q, K, pad=None):
        # pad: (B, nK), True where K is only padding
        Q = self.fc_q(Q)
        K, V = self.fc_k(K), self.fc_v(K)
        ds = self.dim_V // self.num_heads
        Q_ = torch.cat(Q.split(ds, 2), 0)      # heads outermost: (h*B, nQ, ds)
        K_ = torch.cat(K.split(ds, 2), 0)
        V_ = torch.cat(V.split(ds, 2), 0)
        S = Q_.bmm(K_.transpose(1, 2)) / ds ** 0.5
        if pad is not None:
            S = S.masked_fill(pad.repeat(self.num_heads, 1).unsqueeze(1), torch.finfo(S.dtype).min)
        A = torch.softmax(S, 2)
        O = torch.cat((Q_ + A.bmm(V_)).split(Q.size(0), 0), 2)
        O = self.ln0(O)
        O = O + F.relu(self.fc_o(O))
        return self.ln1(O)


class SAB(nn.Module):
    def __init__(self, dim_in, dim_out, num_heads, ln=False):
        super().__init__()
        self.mab = MAB(dim_in, dim_in, dim_out, num_heads, ln=ln)

    def forward(self, X, pad=None):
        return self.mab(X, X, pad)


class PMA(nn.Module):
    """Pooling by attention onto num_seeds learned vectors. X (B, n, dim) -> (B, num_seeds, dim)"""

    def __init__(self, dim=32, num_heads=4, num_seeds=2, ln=False):
        super().__init__()
        self.S = nn.Parameter(torch.empty(1, num_seeds, dim))
        nn.init.xavier_uniform_(self.S)
        self.mab = MAB(dim, dim, dim, num_heads, ln=ln)

    def forward(self, X, n=None):
        pad = None
        if n is not None:
            pad = torch.arange(X.size(1), device=X.device)[None] >= n[:, None]
        return self.mab(self.S.repeat(X.size(0), 1, 1), X, pad)
