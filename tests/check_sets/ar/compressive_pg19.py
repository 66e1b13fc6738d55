"""Compressive memory for long books (after Rae et al. 2020), PG-19 on one GPU.

Keys and values come from [compressed memory ; memory ; current segment], oldest first. Old memories
are squeezed by a strided convolution instead of being thrown away.  The mask is causal inside
the current segment, the memories are visible to all.
"""
import torch
from torch import nn


class Compressor(nn.Module):
    def __init__(self, dim, ratio=2):
        super().__init__()
        self.ratio, self.conv = ratio, nn.Conv1d(dim, dim, ratio, stride=ratio)

    def forward(self, m):
        return self.conv(m.transpose(1, 2)).transpose(1, 2)


class MemoryAttention(nn.Module):
    def __init__(self, dim, heads):
        super().__init__()
        self.heads, self.dh = heads, dim // heads
        self.to_q = nn.Linear(dim, dim, bias=False)
        self.to_k = nn.Linear(dim, dim, bias=False)
        self.to_v = nn.Linear(dim, dim, bias=False)
        self.to_out = nn.Linear(dim, dim)

    def split(self, t):
        return t.view(t.size(0), t.size(1), self.heads, self.dh).transpose(1, 2)

    def forward(self, x, mem, cmem):
        """x (b, t, d), mem (b, m, d), cmem (b, c, d)"""
        b, t, d = x.shape
        past = torch.cat((cmem, mem), dim=1)
        q = self.split(self.to_q(x))
        k = self.split(self.to_k(torch.cat((past, x), dim=1)))
        v = self.split(self.to_v(torch.cat((x, past), dim=1)))
        dots = q @ k.transpose(-1, -2) * self.dh ** -0.5
        blocked = torch.ones(t, k.size(2), dtype=torch.bool, device=x.device).triu(past.size(1) + 1)
        dots = dots.masked_fill(blocked, -torch.finfo(dots.dtype).max)
        out = (dots.softmax(dim=-1) @ v).transpose(1, 2).reshape(b, t, d)
        return self.to_out(out)


class CompressiveLayer(nn.Module):
    def __init__(self, dim, heads, mem_len=8, cmem_len=4, ratio=2):
        super().__init__()
        self.mem_len, self.cmem_len = mem_len, cmem_len
        self.att, self.compress = MemoryAttention(dim, heads), Compressor(dim, ratio)
        self.n1, self.n2 = nn.LayerNorm(dim), nn.LayerNorm(dim)
        self.ff = nn.Sequential(nn.Linear(dim, 4 * dim), nn.GELU(), nn.Linear(4 * dim, dim))

    def forward(self, x, mem, cmem):
        y = x + self.att(self.n1(x), self.n1(mem), self.n1(cmem))
        y = y + self.ff(self.n2(y))
        new = torch.cat((mem, x.detach()), dim=1)
        if new.size(1) > self.mem_len:
            old, new = new[:, :-self.mem_len], new[:, -self.mem_len:]
            if old.size(1) >= self.compress.ratio:
                cmem = torch.cat((cmem, self.compress(old)), dim=1)[:, -self.cmem_len:]
        return y, new, cmem.detach()


def read_book(layer, book, seg):
    mem = cmem = book.new_zeros(book.size(0), 0, book.size(2))
    outs = []
    for piece in book.split(seg, dim=1):
        y, mem, cmem = layer(piece, mem, cmem)
        outs.append(y)
    return torch.cat(outs, dim=1)


if __name__ == "__main__":
    print(read_book(CompressiveLayer(16, 2), torch.randn(2, 24, 16), 6).shape)
