import torch
from torch import nn


class GatedRowBlock(nn.Module):
    """Row-wise update of an MSA with a bias from the pair representation.

    msa:  (B, S, R, c_m)   S sequences, R residues
    pair: (B, R, R, c_z)
    mask: (B, S, R)        1 = residue present, 0 = gap at the end
    Returns the update, same shape as msa (the caller adds it).
    """

    def __init__(self, c_m=64, c_z=32, c=16, n_head=4):
        super().__init__()
        self.c, self.n_head = c, n_head
        self.ln_m = nn.LayerNorm(c_m)
        self.ln_z = nn.LayerNorm(c_z)
        self.lin_q = nn.Linear(c_m, n_head * c, bias=False)
        self.lin_k = nn.Linear(c_m, n_head * c, bias=False)
        self.lin_v = nn.Linear(c_m, n_head * c, bias=False)
        self.lin_b = nn.Linear(c_z, n_head, bias=False)
        self.lin_g = nn.Linear(c_m, n_head * c)
        self.lin_o = nn.Linear(n_head * c, c_m)

    def forward(self, msa, pair, mask=None):
        m = self.ln_m(msa)
        B, S, R, _ = m.shape
        q = self.lin_q(m).view(B, S, R, self.n_head, self.c) * self.c ** -0.5
        k = self.lin_k(m).view(B, S, R, self.n_head, self.c)
        v = self.lin_v(m).view(B, S, R, self.n_head, self.c)
        g = torch.sigmoid(self.lin_g(m)).view(B, S, R, self.n_head, self.c)
        b = self.lin_b(self.ln_z(pair))                       # B R R h

        a = torch.einsum("bsihc,bsjhc->bshij", q, k)
        a = a + b.permute(0, 3, 1, 2).unsqueeze(1)
        if mask is not None:
            gone = mask[:, :, None, None, :] == 0
            a = a.masked_fill(gone, torch.finfo(a.dtype).min)
        a = a.softmax(dim=-1)
        if mask is not None:
            a = a.masked_fill(gone, 0.0)

        o = torch.einsum("bshij,bsjhc->bsihc", a, v) * g
        return self.lin_o(o.reshape(B, S, R, -1))
