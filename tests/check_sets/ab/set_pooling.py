import math
import torch
import torch.nn as nn
import torch.nn.functional as F


class MAB(nn.Module):
    """Multihead attention block of the Set Transformer; heads are stacked along the batch."""

    def __init__(self, dim_Q, dim_K, dim_V, num_heads, ln=False):
        super(MAB, self).__init__()
        self.dim_V = dim_V
        self.num_heads = num_heads
        self.fc_q = nn.Linear(dim_Q, dim_V)
        self.fc_k = nn.Linear(dim_K, dim_V)
        self.fc_v = nn.Linear(dim_K, dim_V)
        self.fc_o = nn.Linear(dim_V, dim_V)
        self.ln0 = nn.LayerNorm(dim_V) if ln else None
        self.ln1 = nn.LayerNorm(dim_V) if ln else None

    def forward(self, Q, K, sizes=None):
        # sizes: (B,) cardinality of every set in K, the rest of the rows is filler
        Q = self.fc_q(Q)
        K, V = self.fc_k(K), self.fc_v(K)

        dim_split = self.dim_V // self.num_heads
        Q_ = torch.cat(Q.split(dim_split, 2), 0)
        K_ = torch.cat(K.split(dim_split, 2), 0)
        V_ = torch.cat(V.split(dim_split, 2), 0)

        A = Q_.bmm(K_.transpose(1, 2)) / math.sqrt(dim_split)
        if sizes is not None:
            filler = torch.arange(K.size(1), device=K.device)[None, :] >= sizes[:, None]
            A = A.masked_fill(filler.repeat(self.num_heads, 1).unsqueeze(1), float('-inf'))
        A = torch.softmax(A, 2)
        # residual per head comes from the projected queries
        O = torch.cat((Q_ + A.bmm(V_)).split(Q.size(0), 0), 2)
        O = O if self.ln0 is None else self.ln0(O)
        O = O + F.relu(self.fc_o(O))
        O = O if self.ln1 is None else self.ln1(O)
        return O


class ISAB(nn.Module):
    def __init__(self, dim_in, dim_out, num_heads, num_inds, ln=False):
        super(ISAB, self).__init__()
        self.I = nn.Parameter(torch.Tensor(1, num_inds, dim_out))
        nn.init.xavier_uniform_(self.I)
        self.mab0 = MAB(dim_out, dim_in, dim_out, num_heads, ln=ln)
        self.mab1 = MAB(dim_in, dim_out, dim_out, num_heads, ln=ln)

    def forward(self, X, sizes=None):
        H = self.mab0(self.I.repeat(X.size(0), 1, 1), X, sizes)
        return self.mab1(X, H)


class PMA(nn.Module):
    def __init__(self, dim, num_heads, num_seeds, ln=False):
        super(PMA, self).__init__()
        self.S = nn.Parameter(torch.Tensor(1, num_seeds, dim))
        nn.init.xavier_uniform_(self.S)
        self.mab = MAB(dim, dim, dim, num_heads, ln=ln)

    def forward(self, X, sizes=None):
        return self.mab(self.S.repeat(X.size(0), 1, 1), X, sizes)


class SetTransformer(nn.Module):
    def __init__(self, dim_input, num_outputs, dim_output, num_inds=8, dim_hidden=32, num_heads=4, ln=False):
        super(SetTransformer, self).__init__()
        self.enc0 = ISAB(dim_input, dim_hidden, num_heads, num_inds, ln=ln)
        self.enc1 = ISAB(dim_hidden, dim_hidden, num_heads, num_inds, ln=ln)
        self.pool = PMA(dim_hidden, num_heads, num_outputs, ln=ln)
        self.dec = nn.Linear(dim_hidden, dim_output)

    def forward(self, X, sizes=None):
        return self.dec(self.pool(self.enc1(self.enc0(X, sizes), sizes), sizes))
