"""Lets a run of our own child orders read a snapshot of the limit order book.

BookReader(f_order, f_level, width=32, desks=4)

forward(orders, book, live)
    orders  (B, T, f_order)   features of T child orders of one parent
    book    (B, L, f_level)   L price levels (bids then asks), padded with zeros
    live    (B, L) bool       True = the level is quoted, False = padding.
                              Every snapshot has at least one quoted level.
returns
    (B, T, width): every order plus what it took from the quoted levels, normalised.
    Orders of one parent do not see each other, nor other snapshots of the batch.
"""
import torch
from torch import nn


class BookReader(nn.Module):
    def __init__(self, f_order, f_level, width=32, desks=4):
        super().__init__()
        self.up_order = nn.Linear(f_order, width)
        self.up_level = nn.Sequential(nn.Linear(f_level, width), nn.GELU(), nn.Linear(width, width))
        self.desk = nn.MultiheadAttention(width, desks)
        self.norm = nn.LayerNorm(width)

    def forward(self, orders, book, live):
        o = self.up_order(orders).transpose(0, 1)       # (T, B, width)
        b = self.up_level(book).transpose(0, 1)         # (L, B, width)
        empty = live.logical_not()                      # torch wants True = ignore
        took, _ = self.desk(o, b, b, key_padding_mask=empty, need_weights=False)
        return self.norm(o + took).transpose(0, 1)


def demo():
    net = BookReader(5, 3).eval()
    live = torch.tensor([[1, 1, 0, 1, 0, 0], [1, 1, 1, 1, 1, 1]]).bool()
    with torch.no_grad():
        return net(torch.randn(2, 4, 5), torch.randn(2, 6, 3), live)


if __name__ == "__main__":
    print(demo().shape)
