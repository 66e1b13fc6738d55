import torch
from torch import nn


class GatedAttention(nn.Module):
    """AlphaFold-like gated attention.  x [B, R, C]; mask [B, R], 1 for residues and 0 for padding.

    Residues attend to residues only: no weight goes to padding, and weights sum to one.
    """

    def __init__(self, c, n_head=2):
        super().__init__()
        self.n_head = n_head
        self.ln = nn.LayerNorm(c)
        self.linear_q = nn.Linear(c, c, bias=False)
        self.linear_k = nn.Linear(c, c, bias=False)
        self.linear_v = nn.Linear(c, c, bias=False)
        self.linear_g = nn.Linear(c, c)
        self.linear_o = nn.Linear(c, c)

    def forward(self, x, mask):
        x = self.ln(x)
        q, k, v = (lin(x).unflatten(-1, (self.n_head, -1)) for lin in (self.linear_q, self.linear_k, self.linear_v))
        logits = torch.einsum("bihd,bjhd->bhij", q * q.shape[-1] ** -0.5, k)
        a = torch.softmax(logits, dim=-1)
        a = a * mask[:, None, None, :]
        o = torch.einsum("bhij,bjhd->bihd", a, v).flatten(-2)
        return self.linear_o(torch.sigmoid(self.linear_g(x)) * o)


class ProteinBlock(nn.Module):
    def __init__(self, c, n_head=2):
        super().__init__()
        self.attn = GatedAttention(c, n_head)
        self.transition = nn.Sequential(nn.LayerNorm(c), nn.Linear(c, 2 * c), nn.ReLU(), nn.Linear(2 * c, c))

    def forward(self, x, mask):
        x = x + self.attn(x, mask)
        return x + self.transition(x)
