import torch
from torch import nn


class Chorus(nn.Module):
    """Talking-heads attention, one small projection trio per head.

    x (B, L, dim); pad (B, L) True on padding (never a whole row).
    logits are mixed across heads before the softmax, weights after it.
    """

    def __init__(self, dim, n_heads, d_head):
        super().__init__()
        self.q = nn.ModuleList(nn.Linear(dim, d_head) for _ in range(n_heads))
        self.k = nn.ModuleList(nn.Linear(dim, d_head) for _ in range(n_heads))
        self.v = nn.ModuleList(nn.Linear(dim, d_head) for _ in range(n_heads))
        self.before = nn.Parameter(torch.eye(n_heads) + 0.1 * torch.randn(n_heads, n_heads))
        self.after = nn.Parameter(torch.eye(n_heads) + 0.1 * torch.randn(n_heads, n_heads))
        self.out = nn.Linear(n_heads * d_head, dim)
        self.root = d_head ** 0.5

    def forward(self, x, pad=None):
        per_head = []
        for wq, wk in zip(self.q, self.k):
            per_head.append(wq(x) @ wk(x).transpose(1, 2) / self.root)
        logits = torch.stack(per_head, dim=0)                       # (H, B, L, L)
        logits = torch.tensordot(self.before, logits, dims=([1], [0]))
        if pad is not None:
            logits = logits.masked_fill(pad[None, :, None, :], float("-inf"))
        w = torch.softmax(logits, dim=3)
        w = torch.tensordot(self.after, w, dims=([1], [0]))
        pieces = [w[h] @ wv(x) for h, wv in enumerate(self.v)]
        return self.out(torch.cat(pieces, dim=-1))
