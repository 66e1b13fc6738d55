"""MSA column-wise gated self-attention (as in the Evoformer, Suppl. Alg. 8).

m        (B, S, R, C)   S aligned sequences, R residues
msa_mask (B, S, R)      1 for a residue that is there, 0 for padding / gap rows

Every residue column r attends over the S sequences of that same column:
  a^h_{s,t,r} = softmax_t( q^h_{s,r} . k^h_{t,r} / sqrt(c) )
  o^h_{s,r}   = sigmoid(g^h_{s,r}) * sum_t a^h_{s,t,r} v^h_{t,r}
Absent sequences t carry no weight.  The update is returned (not added to m),
and it is zero where msa_mask is zero.  float32 only.
"""
import torch
import torch.nn as nn


class MSAColumnAttention(nn.Module):
    def __init__(self, c_m, c=8, n_head=4):
        super().__init__()
        self.c, self.n_head = c, n_head
        self.ln = nn.LayerNorm(c_m)
        self.q = nn.Linear(c_m, n_head * c, bias=False)
        self.k = nn.Linear(c_m, n_head * c, bias=False)
        self.v = nn.Linear(c_m, n_head * c, bias=False)
        self.g = nn.Linear(c_m, n_head * c)
        self.o = nn.Linear(n_head * c, c_m)

    def heads(self, t):
        return t.unflatten(-1, (self.n_head, self.c))

    def forward(self, m, msa_mask):
        m = self.ln(m)
        q = self.heads(self.q(m)) * self.c ** -0.5
        k, v = self.heads(self.k(m)), self.heads(self.v(m))
        logits = torch.einsum("bsrhc,btrhc->brhst", q, k)
        bias = 1e9 * (msa_mask - 1.0)                       # (B, S, R)
        logits = logits + bias.permute(0, 2, 1)[:, :, None, None, :]
        a = torch.softmax(logits, dim=-1)
        o = torch.einsum("brhst,btrhc->bsrhc", a, v)
        o = torch.sigmoid(self.heads(self.g(m))) * o
        return self.o(o.flatten(-2)) * msa_mask[..., None]
