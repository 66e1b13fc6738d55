"""Set Transformer parts: SAB and PMA with padding, for sets of different sizes."""
import torch
import torch.nn as nn


class MAB(nn.Module):
    """Multihead attention block: rFF and residual around att(X, Y, Y)."""

    def __init__(self, dim, heads):
        super().__init__()
        self.heads = heads
        self.fc_q = nn.Linear(dim, dim)
        self.fc_k = nn.Linear(dim, dim)
        self.fc_v = nn.Linear(dim, dim)
        self.fc_o = nn.Linear(dim, dim)
        self.ln0 = nn.LayerNorm(dim)
        self.ln1 = nn.LayerNorm(dim)

    def forward(self, X, Y, present=None):
        """X (B, n, dim), Y (B, m, dim), present (B, m) bool: element exists."""
        Q, K, V = self.fc_q(X), self.fc_k(Y), self.fc_v(Y)
        heads = []
        for q, k, v in zip(Q.chunk(self.heads, -1), K.chunk(self.heads, -1), V.chunk(self.heads, -1)):
            logits = q @ k.transpose(1, 2) / q.shape[-1] ** 0.5
            if present is not None:
                logits = logits.masked_fill(~present[:, None, :], torch.finfo(logits.dtype).min)
            heads.append(q + logits.softmax(dim=2) @ v)
        H = self.ln0(torch.cat(heads, dim=-1))
        return self.ln1(H + torch.relu(self.fc_o(H)))


class SetEncoder(nn.Module):
    """x: (B, N, in_dim), present: (B, N) bool with at least one True in each row.

    -> (B, k, out_dim), the same for every order of the elements.
    """

    def __init__(self, in_dim=3, dim=16, heads=4, seeds=2, out_dim=5):
        super().__init__()
        self.inp = nn.Linear(in_dim, dim)
        self.sab1 = MAB(dim, heads)
        self.sab2 = MAB(dim, heads)
        self.seed = nn.Parameter(torch.empty(1, seeds, dim))
        nn.init.xavier_uniform_(self.seed)
        self.pma = MAB(dim, heads)
        self.sab3 = MAB(dim, heads)
        self.out = nn.Linear(dim, out_dim)

    def forward(self, x, present):
        h = self.inp(x)
        h = self.sab1(h, h, present)
        h = self.sab2(h, h, present)
        s = self.seed.expand(x.shape[0], -1, -1)
        z = self.pma(s, h, present)
        z = self.sab3(z, z)
        return self.out(z)
