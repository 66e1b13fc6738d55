"""Set Transformer (Lee et al. 2019) for jet tagging: a jet is a set of up to ~100 particles."""
import torch
import torch.nn as nn
import torch.nn.functional as F


class MAB(nn.Module):
    """Multihead attention block: MAB(X, Y) = LN(H + rFF(H)), H = LN(X + Multihead(X, Y, Y)).

    Each head is scaled dot-product attention of width dim_V / num_heads.
    Q [B, n, dim_Q], K [B, m, dim_K], pad [B, m] with True for particles that are padding.
    """

    def __init__(self, dim_Q, dim_K, dim_V, num_heads, ln=True):
        super().__init__()
        self.dim_V = dim_V
        self.num_heads = num_heads
        self.fc_q = nn.Linear(dim_Q, dim_V)
        self.fc_k = nn.Linear(dim_K, dim_V)
        self.fc_v = nn.Linear(dim_K, dim_V)
        self.fc_o = nn.Linear(dim_V, dim_V)
        self.ln0 = nn.LayerNorm(dim_V) if ln else nn.Identity()
        self.ln1 = nn.LayerNorm(dim_V) if ln else nn.Identity()

    def forward(self, Q, K, pad=None):
        Q = self.fc_q(Q)
        K, V = self.fc_k(K), self.fc_v(K)
        dim_split = self.dim_V // self.num_heads
        Q_ = torch.cat(Q.split(dim_split, 2), 0)
        K_ = torch.cat(K.split(dim_split, 2), 0)
        V_ = torch.cat(V.split(dim_split, 2), 0)
        S = Q_.bmm(K_.transpose(1, 2)) / self.dim_V ** 0.5
        if pad is not None:
            S = S.masked_fill(pad.repeat_interleave(self.num_heads, dim=0).unsqueeze(1), -1e9)
        A = torch.softmax(S, 2)
        O = torch.cat(A.bmm(V_).split(Q.size(0), 0), 2)
        O = self.ln0(Q + O)
        return self.ln1(O + F.relu(self.fc_o(O)))


class ISAB(nn.Module):
    def __init__(self, dim_in, dim_out, num_heads, num_inds):
        super().__init__()
        self.I = nn.Parameter(torch.empty(1, num_inds, dim_out))
        nn.init.xavier_uniform_(self.I)
        self.mab0 = MAB(dim_out, dim_in, dim_out, num_heads)
        self.mab1 = MAB(dim_in, dim_out, dim_out, num_heads)

    def forward(self, X, pad=None):
        H = self.mab0(self.I.expand(X.size(0), -1, -1), X, pad)
        return self.mab1(X, H)


class PMA(nn.Module):
    def __init__(self, dim, num_heads, num_seeds):
        super().__init__()
        self.S = nn.Parameter(torch.empty(1, num_seeds, dim))
        nn.init.xavier_uniform_(self.S)
        self.mab = MAB(dim, dim, dim, num_heads)

    def forward(self, X, pad=None):
        return self.mab(self.S.expand(X.size(0), -1, -1), X, pad)


class JetTagger(nn.Module):
    def __init__(self, n_feat=4, dim=64, heads=4, inds=16, classes=5):
        super().__init__()
        self.inp = nn.Linear(n_feat, dim)
        self.enc = nn.ModuleList([ISAB(dim, dim, heads, inds), ISAB(dim, dim, heads, inds)])
        self.pool = PMA(dim, heads, 1)
        self.out = nn.Linear(dim, classes)

    def forward(self, particles, n_real):
        pad = torch.arange(particles.size(1), device=particles.device)[None] >= n_real[:, None]
        x = self.inp(particles)
        for e in self.enc:
            x = e(x, pad)
        return self.out(self.pool(x, pad).squeeze(1))
