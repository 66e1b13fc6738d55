"""Graph transformer layer with bond features, for solubility prediction."""
import torch
import torch.nn as nn


class BondAttention(nn.Module):
    """h (B, N, D) atoms; e (B, N, N, E) with e[b, i, j] the features of the directed bond j -> i;
    atom (B, N) bool, True = real atom (at least one).

    Atom i reads from atom j:
        a_ij = softmax_j( q_i . (k_j + Wk e_ij) / sqrt(d) ),   out_i = sum_j a_ij (v_j + Wv e_ij)
    Output (B, N, D).
    """

    def __init__(self, D=24, E=5, heads=3):
        super().__init__()
        self.heads, self.d = heads, D // heads
        self.qkv = nn.Linear(D, 3 * D)
        self.ek, self.ev = nn.Linear(E, D), nn.Linear(E, D)
        self.o = nn.Linear(D, D)

    def forward(self, h, e, atom=None):
        B, N, D = h.shape
        H, d = self.heads, self.d
        q, k, v = (t.view(B, N, H, d) for t in self.qkv(h).chunk(3, -1))
        ek = self.ek(e).view(B, N, N, H, d)
        ev = self.ev(e).view(B, N, N, H, d)
        s = torch.einsum("bihd,bjhd->bhij", q, k)
        s = s + torch.einsum("bihd,bjihd->bhij", q, ek)
        s = s / d ** 0.5
        if atom is not None:
            s = s.masked_fill(~atom[:, None, None, :], float("-inf"))
        a = s.softmax(-1)
        y = torch.einsum("bhij,bjhd->bihd", a, v) + torch.einsum("bhij,bijhd->bihd", a, ev)
        return self.o(y.reshape(B, N, D))
