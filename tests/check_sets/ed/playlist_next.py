"""Next-track model for playlists.

    tracks  (B, L) long; 0 = padding.  Playlists are padded on the LEFT so that the
            newest track is always in the last column.  L <= max_len.
    -> (B, L, n_tracks + 1) scores for what comes after each column; columns that are
       padding give scores too, nobody uses them.

A column may look at itself and at earlier columns holding real tracks.  (A padding
column sees only itself, so that its softmax has something to chew on.)
Positions are counted from the end: the newest track is position 0.
"""
import torch
from torch import nn
import torch.nn.functional as F


class Mixer(nn.Module):
    def __init__(self, dim, heads, p):
        super().__init__()
        assert dim % heads == 0
        self.heads, self.p = heads, p
        self.inp = nn.Linear(dim, 3 * dim)
        self.out = nn.Linear(dim, dim)

    def forward(self, x, may):
        """may (B, L, L) bool: may[b, i, j] = column i may look at column j"""
        B, L, D = x.shape
        q, k, v = self.inp(x).view(B, L, 3, self.heads, D // self.heads).permute(2, 0, 3, 1, 4)
        y = F.scaled_dot_product_attention(
            q, k, v, attn_mask=may[:, None], dropout_p=self.p if self.training else 0.0
        )
        return self.out(y.permute(0, 2, 1, 3).reshape(B, L, D))


class PlaylistNext(nn.Module):
    def __init__(self, n_tracks, max_len=50, dim=64, heads=2, depth=2, p=0.2):
        super().__init__()
        self.track = nn.Embedding(n_tracks + 1, dim, padding_idx=0)
        self.age = nn.Embedding(max_len, dim)
        self.mix = nn.ModuleList(Mixer(dim, heads, p) for _ in range(depth))
        self.ffn = nn.ModuleList(
            nn.Sequential(nn.Linear(dim, dim), nn.ReLU(), nn.Dropout(p), nn.Linear(dim, dim))
            for _ in range(depth)
        )
        self.n1 = nn.ModuleList(nn.LayerNorm(dim) for _ in range(depth))
        self.n2 = nn.ModuleList(nn.LayerNorm(dim) for _ in range(depth))
        self.drop = nn.Dropout(p)

    def forward(self, tracks):
        L = tracks.size(1)
        age = torch.arange(L - 1, -1, -1, device=tracks.device)
        x = self.drop(self.track(tracks) + self.age(age))

        past = torch.ones(L, L, dtype=torch.bool, device=x.device).tril()
        may = past & tracks.ne(0)[:, None, :]
        may = may | torch.eye(L, dtype=torch.bool, device=x.device)
        for m, f, a, b in zip(self.mix, self.ffn, self.n1, self.n2):
            x = x + self.drop(m(a(x), may))
            x = x + self.drop(f(b(x)))
        return x @ self.track.weight.t()
