# set transformer pieces used for the particle-jet tagger
import math
import torch
import torch.nn as nn
import torch.nn.functional as F


class MAB(nn.Module):
    """Multihead attention block: X attends to Y; `keep` (B, nY) is True on real particles."""

    def __init__(self, dim_x, dim_y, dim, heads, ln=True):
        super().__init__()
        assert dim % heads == 0
        self.heads = heads
        self.dim = dim
        self.fc_q = nn.Linear(dim_x, dim)
        self.fc_k = nn.Linear(dim_y, dim)
        self.fc_v = nn.Linear(dim_y, dim)
        self.fc_o = nn.Linear(dim, dim)
        self.ln0 = nn.LayerNorm(dim) if ln else nn.Identity()
        self.ln1 = nn.LayerNorm(dim) if ln else nn.Identity()

    def forward(self, X, Y, keep=None):
        Q, K, V = self.fc_q(X), self.fc_k(Y), self.fc_v(Y)
        w = self.dim // self.heads
        # heads go in front of the batch: (H*B, n, w)
        Qf = torch.cat(Q.split(w, 2), 0)
        Kf = torch.cat(K.split(w, 2), 0)
        Vf = torch.cat(V.split(w, 2), 0)
        S = Qf.bmm(Kf.transpose(1, 2)) / math.sqrt(w)
        if keep is not None:
            m = keep.repeat(self.heads, 1).unsqueeze(1)
            S = S.masked_fill(~m, torch.finfo(S.dtype).min)
        A = torch.softmax(S, 2)
        O = torch.cat((Qf + A.bmm(Vf)).split(X.size(0), 0), 2)
        O = self.ln0(O)
        return self.ln1(O + F.relu(self.fc_o(O)))


class ISAB(nn.Module):
    def __init__(self, dim_in, dim, heads, num_inds):
        super().__init__()
        self.I = nn.Parameter(torch.empty(1, num_inds, dim))
        nn.init.xavier_uniform_(self.I)
        self.down = MAB(dim, dim_in, dim, heads)
        self.up = MAB(dim_in, dim, dim, heads)

    def forward(self, X, keep=None):
        H = self.down(self.I.expand(X.size(0), -1, -1), X, keep)
        return self.up(X, H)


class PMA(nn.Module):
    def __init__(self, dim, heads, seeds=1):
        super().__init__()
        self.S = nn.Parameter(torch.empty(1, seeds, dim))
        nn.init.xavier_uniform_(self.S)
        self.mab = MAB(dim, dim, dim, heads)

    def forward(self, X, keep=None):
        return self.mab(self.S.expand(X.size(0), -1, -1), X, keep)


class JetTagger(nn.Module):
    def __init__(self, feats=4, dim=24, heads=3, classes=5):
        super().__init__()
        self.enc1 = ISAB(feats, dim, heads, 6)
        self.enc2 = ISAB(dim, dim, heads, 6)
        self.pool = PMA(dim, heads)
        self.head = nn.Linear(dim, classes)

    def forward(self, particles, keep=None):
        h = self.enc2(self.enc1(particles, keep), keep)
        return self.head(self.pool(h, keep).squeeze(1))
