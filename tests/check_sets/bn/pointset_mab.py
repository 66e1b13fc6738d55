import math
import torch
import torch.nn as nn
import torch.nn.functional as F


class MAB(nn.Module):
    """multihead attention block of the set transformer

    Q: (B, n, dim_Q), K: (B, m, dim_K) -> (B, n, dim_V)
    O = Q' + Multihead(Q', K', V'),  return O + relu(fc_o(O))
    """
    def __init__(self, dim_Q, dim_K, dim_V, num_heads, ln=False):
        super(MAB, self).__init__()
        self.dim_V = dim_V
        self.num_heads = num_heads
        self.fc_q = nn.Linear(dim_Q, dim_V)
        self.fc_k = nn.Linear(dim_K, dim_V)
        self.fc_v = nn.Linear(dim_K, dim_V)
        if ln:
            self.ln0 = nn.LayerNorm(dim_V)
            self.ln1 = nn.LayerNorm(dim_V)
        self.fc_o = nn.Linear(dim_V, dim_V)

    def forward(self, Q, K):
        B, n = Q.size(0), Q.size(1)
        Q = self.fc_q(Q)
        K, V = self.fc_k(K), self.fc_v(K)

        dim_split = self.dim_V // self.num_heads
        Q_ = torch.cat(Q.split(dim_split, 2), 0)
        K_ = torch.cat(K.split(dim_split, 2), 0)
        V_ = torch.cat(V.split(dim_split, 2), 0)

        A = torch.softmax(Q_.bmm(K_.transpose(1, 2)) / math.sqrt(dim_split), 2)
        O = A.bmm(V_)
        O = O.view(B, self.num_heads, n, dim_split).transpose(1, 2)
        O = Q + O.reshape(B, n, self.dim_V)
        O = O if getattr(self, 'ln0', None) is None else self.ln0(O)
        O = O + F.relu(self.fc_o(O))
        O = O if getattr(self, 'ln1', None) is None else self.ln1(O)
        return O


class SAB(nn.Module):
    def __init__(self, dim_in, dim_out, num_heads, ln=False):
        super(SAB, self).__init__()
        self.mab = MAB(dim_in, dim_in, dim_out, num_heads, ln=ln)

    def forward(self, X):
        return self.mab(X, X)


class ISAB(nn.Module):
    def __init__(self, dim_in, dim_out, num_heads, num_inds, ln=False):
        super(ISAB, self).__init__()
        self.I = nn.Parameter(torch.Tensor(1, num_inds, dim_out))
        nn.init.xavier_uniform_(self.I)
        self.mab0 = MAB(dim_out, dim_in, dim_out, num_heads, ln=ln)
        self.mab1 = MAB(dim_in, dim_out, dim_out, num_heads, ln=ln)

    def forward(self, X):
        H = self.mab0(self.I.repeat(X.size(0), 1, 1), X)
        return self.mab1(X, H)


class PMA(nn.Module):
    def __init__(self, dim, num_heads, num_seeds, ln=False):
        super(PMA, self).__init__()
        self.S = nn.Parameter(torch.Tensor(1, num_seeds, dim))
        nn.init.xavier_uniform_(self.S)
        self.mab = MAB(dim, dim, dim, num_heads, ln=ln)

    def forward(self, X):
        return self.mab(self.S.repeat(X.size(0), 1, 1), X)


class PointSetClassifier(nn.Module):
    """lidar clusters -> {car, bike, pedestrian, pole, vegetation}"""
    def __init__(self, dim_in=4, num_classes=5, dim_hidden=32, num_heads=4, num_inds=8):
        super(PointSetClassifier, self).__init__()
        self.enc = nn.Sequential(
            ISAB(dim_in, dim_hidden, num_heads, num_inds, ln=True),
            ISAB(dim_hidden, dim_hidden, num_heads, num_inds, ln=True))
        self.dec = nn.Sequential(
            PMA(dim_hidden, num_heads, 1, ln=True),
            nn.Linear(dim_hidden, num_classes))

    def forward(self, X):
        return self.dec(self.enc(X)).squeeze(1)


def normalise_cluster(pts):
    xyz = pts[..., :3]
    xyz = xyz - xyz.mean(-2, keepdim=True)
    xyz = xyz / xyz.norm(dim=-1).amax(-1)[..., None, None].clamp(min=1e-6)
    return torch.cat([xyz, pts[..., 3:]], -1)
