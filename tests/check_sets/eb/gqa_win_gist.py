"""mistral-ish attention, minimal. grouped queries + sliding window + rope. gist, no warranty.

* n_kv heads are shared by n_head // n_kv neighbouring query heads (head 0..r-1 -> kv 0, ...)
* position i sees the `win` positions  i-win+1 .. i  (itself included)
* rope: pairs are (x[2m], x[2m+1]), angle pos * base^(-2m/d)
"""
import torch
import torch.nn as nn


def rope(x, base=10000.0):
    """x (B, L, H, d), positions 0..L-1"""
    L, d = x.shape[1], x.shape[-1]
    th = base ** (-torch.arange(0, d, 2, device=x.device, dtype=torch.float32) / d)
    ang = torch.arange(L, device=x.device, dtype=torch.float32)[:, None] * th
    z = torch.view_as_complex(x.float().unflatten(-1, (-1, 2)).contiguous())
    z = z * torch.polar(torch.ones_like(ang), ang)[None, :, None]
    return torch.view_as_real(z).flatten(-2).type_as(x)


class Mix(nn.Module):
    def __init__(self, dim, n_head, n_kv, win):
        super().__init__()
        self.d, self.g, self.r, self.win = dim // n_head, n_kv, n_head // n_kv, win
        self.wq = nn.Linear(dim, n_head * self.d, bias=False)
        self.wkv = nn.Linear(dim, 2 * n_kv * self.d, bias=False)
        self.wo = nn.Linear(n_head * self.d, dim, bias=False)

    def forward(self, x):
        """x (B, L, dim) -> (B, L, dim)"""
        B, L, _ = x.shape
        q = rope(self.wq(x).view(B, L, -1, self.d)).view(B, L, self.g, self.r, self.d)
        k, v = self.wkv(x).view(B, L, 2, self.g, self.d).unbind(2)
        k = rope(k)
        s = torch.einsum("bqgrd,bkgd->bgrqk", q, k) / self.d ** 0.5
        i = torch.arange(L, device=x.device)
        gap = i[:, None] - i[None, :]
        s = s.masked_fill((gap < 0) | (gap >= self.win), -torch.inf)
        p = s.float().softmax(-1).type_as(x)
        return self.wo(torch.einsum("bgrqk,bkgd->bqgrd", p, v).reshape(B, L, -1))
