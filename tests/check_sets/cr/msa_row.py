import torch
import torch.nn as nn


class MSARowAttentionWithPairBias(nn.Module):
    """AlphaFold 2 supplementary, algorithm 7: gated row-wise self-attention biased by the pair representation."""

    def __init__(self, c_m=16, c_z=8, c=6, n_head=4):
        super().__init__()
        self.c, self.n_head = c, n_head
        self.norm_m = nn.LayerNorm(c_m)
        self.norm_z = nn.LayerNorm(c_z)
        self.to_q = nn.Linear(c_m, n_head * c, bias=False)
        self.to_k = nn.Linear(c_m, n_head * c, bias=False)
        self.to_v = nn.Linear(c_m, n_head * c, bias=False)
        self.to_b = nn.Linear(c_z, n_head, bias=False)
        self.to_g = nn.Linear(c_m, n_head * c)
        self.to_o = nn.Linear(n_head * c, c_m)

    def forward(self, m, z, msa_mask):
        """
        m: [*, S, R, c_m] MSA embedding; z: [*, R, R, c_z] pair embedding
        msa_mask: [*, S, R], 1 for a residue and 0 for a padded column.  Padded columns are
            not attended to.  Rows that are all padding receive only the output bias.
        """
        m = self.norm_m(m)
        shp = m.shape[:-1] + (self.n_head, self.c)
        q = self.to_q(m).view(shp) * self.c ** -0.5
        k, v = self.to_k(m).view(shp), self.to_v(m).view(shp)
        g = torch.sigmoid(self.to_g(m)).view(shp)
        b = self.to_b(self.norm_z(z)).movedim(-1, -3).unsqueeze(-4)    # [*, 1, H, R, R]

        keep = msa_mask.bool()[..., None, None, :]                     # [*, S, 1, 1, R]
        a = torch.einsum("...ihc,...jhc->...hij", q, k) + b
        a = a.masked_fill(~keep, torch.finfo(a.dtype).min)
        a = a.softmax(dim=-1) * keep.any(-1, keepdim=True)
        o = g * torch.einsum("...hij,...jhc->...ihc", a, v)
        return self.to_o(o.flatten(-2))
