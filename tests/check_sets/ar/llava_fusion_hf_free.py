"""LLaVA-like fusion without HF: image patches and text tokens in one sequence.

text_mask (B, T): 1 = word, 0 = pad.  Patches see patches; words see the patches and the words
up to themselves.  The batch's masks differ, since the texts have different lengths.
"""
import torch
from torch import nn


def fusion_mask(n_img, text_mask):
    """(B, L, L) bool, True = blocked, L = n_img + T"""
    B, T = text_mask.shape
    L = n_img + T
    ok = torch.zeros(B, L, L, dtype=torch.bool)
    ok[:, :, :n_img] = True
    causal = torch.ones(T, T, dtype=torch.bool).tril()
    ok[:, n_img:, n_img:] = causal & text_mask.bool()[:, None, :]
    return ~ok


class FusionAttention(nn.Module):
    """heads live in the batch axis: (B * heads, L, d), sample by sample"""

    def __init__(self, dim, heads):
        super().__init__()
        self.heads, self.d = heads, dim // heads
        self.in_proj = nn.Linear(dim, 3 * dim)
        self.out_proj = nn.Linear(dim, dim)

    def fold(self, t):
        B, L, _ = t.shape
        return t.view(B, L, self.heads, self.d).transpose(1, 2).reshape(B * self.heads, L, self.d)

    def forward(self, x, blocked):
        B, L, C = x.shape
        q, k, v = map(self.fold, self.in_proj(x).chunk(3, dim=-1))
        s = torch.baddbmm(x.new_zeros(1), q, k.transpose(1, 2), beta=0, alpha=self.d ** -0.5)
        s = s.masked_fill(blocked.repeat(self.heads, 1, 1), float("-inf"))
        o = torch.bmm(s.softmax(dim=-1), v)
        o = o.view(B, self.heads, L, self.d).transpose(1, 2).reshape(B, L, C)
        return self.out_proj(o)


class Projector(nn.Module):
    def __init__(self, d_vis, d):
        super().__init__()
        self.net = nn.Sequential(nn.Linear(d_vis, d), nn.GELU(), nn.Linear(d, d))

    def forward(self, patches):
        return self.net(patches)


class TinyLlava(nn.Module):
    def __init__(self, vocab=100, d_vis=24, d=32, heads=4, depth=2):
        super().__init__()
        self.emb, self.projector = nn.Embedding(vocab, d), Projector(d_vis, d)
        self.att = nn.ModuleList(FusionAttention(d, heads) for _ in range(depth))
        self.ln = nn.ModuleList(nn.LayerNorm(d) for _ in range(2 * depth))
        self.ff = nn.ModuleList(nn.Sequential(nn.Linear(d, 4 * d), nn.SiLU(), nn.Linear(4 * d, d)) for _ in range(depth))
        self.head = nn.Linear(d, vocab)

    def forward(self, patches, ids, text_mask):
        n = patches.shape[1]
        x = torch.cat([self.projector(patches), self.emb(ids)], dim=1)
        blocked = fusion_mask(n, text_mask)
        for i, (a, f) in enumerate(zip(self.att, self.ff)):
            x = x + a(self.ln[2 * i](x), blocked)
            x = x + f(self.ln[2 * i + 1](x))
        return self.head(x[:, n:])


if __name__ == "__main__":
    tm = torch.tensor([[1, 1, 1, 1, 1], [1, 1, 0, 0, 0], [1, 1, 1, 0, 0]])
    print(TinyLlava()(torch.randn(3, 9, 24), torch.randint(0, 100, (3, 5)), tm).shape)
