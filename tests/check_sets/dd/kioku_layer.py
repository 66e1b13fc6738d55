import torch
from torch import nn


class KiokuLayer(nn.Module):
    """Memorizing Transformer layer: local causal attention, plus attention over the top-k
    entries of an external memory, blended by one learned gate per head.

    x: (B, T, dim)        kioku_k, kioku_v: (heads, M, dim // heads) stored pairs, M >= topk
    """

    def __init__(self, dim=32, heads=4, topk=3):
        super().__init__()
        self.heads, self.topk, self.sukeru = heads, topk, (dim // heads) ** -0.5
        self.toi = nn.Linear(dim, dim, bias=False)
        self.kagi = nn.Linear(dim, dim, bias=False)
        self.atai = nn.Linear(dim, dim, bias=False)
        self.deguchi = nn.Linear(dim, dim)
        self.mon = nn.Parameter(torch.zeros(heads, 1, 1))

    def forward(self, x, kioku_k, kioku_v):
        B, T, D = x.shape
        wake = lambda t: t.view(B, T, self.heads, -1).transpose(1, 2)
        q, k, v = wake(self.toi(x)), wake(self.kagi(x)), wake(self.atai(x))
        # chikaku
        s = torch.einsum("bhid,bhjd->bhij", q, k) * self.sukeru
        mirai = torch.triu(torch.ones(T, T, dtype=torch.bool, device=x.device), diagonal=1)
        local = s.masked_fill(mirai, float("-inf")).softmax(-1) @ v
        # tooku
        m = torch.einsum("bhid,hmd->bhim", q, kioku_k) * self.sukeru
        best, idx = m.topk(self.topk, dim=-1)
        head = torch.arange(self.heads, device=x.device)[None, :, None, None]
        far = torch.einsum("bhik,bhikd->bhid", best.softmax(-1), kioku_v[head, idx])
        g = torch.sigmoid(self.mon)
        y = g * far + (1 - g) * local
        return self.deguchi(y.transpose(1, 2).reshape(B, T, D))
