import torch
import torch.nn as nn
import torch.nn.functional as F


class CatalogMatch(nn.Module):
    """Match a search text to the words of a listing (scaled dot product, several heads).

    text (B, Q, D), listing (B, K, D), missing (B, K) True where the listing has no word
    (each listing has at least one).
    """

    def __init__(self, D, heads=4, p=0.1):
        super().__init__()
        self.heads, self.p = heads, p
        self.d = D // heads
        self.scale = self.d ** -0.5
        self.to_q = nn.Linear(D, D)
        self.to_kv = nn.Linear(D, 2 * D)
        self.to_out = nn.Linear(D, D)

    def forward(self, text, listing, missing):
        B, Q, D = text.shape
        K = listing.shape[1]
        q = self.to_q(text).view(B, Q, self.heads, self.d).transpose(1, 2)
        k, v = self.to_kv(listing).chunk(2, dim=-1)
        k = k.view(B, K, self.heads, self.d).transpose(1, 2)
        v = v.view(B, K, self.heads, self.d).transpose(1, 2)
        sim = torch.einsum("bhqd,bhkd->bhqk", q, k) / self.scale
        sim = sim.masked_fill(missing[:, None, None, :], torch.finfo(sim.dtype).min)
        w = F.dropout(sim.softmax(dim=-1), self.p)
        out = torch.einsum("bhqk,bhkd->bhqd", w, v)
        return self.to_out(out.transpose(1, 2).reshape(B, Q, D))
