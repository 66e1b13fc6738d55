"""Skat bot: the hand reads the cards on the table."""
import torch
import torch.nn as nn

SUITS, RANKS, SEATS = 4, 8, 3
N_CARDS = SUITS * RANKS


class TableAttention(nn.Module):
    """Scaled dot-product attention, hand -> table.

    hand   [B, h, D]  the cards we hold
    table  [B, t, D]  the cards played
    seats  [B, t]     who played them; the seat embedding is added to the table cards
    unseen [B, t]     True = slot still empty (at least one card lies)

    The arguments are left as they are.
    """

    def __init__(self, dim, heads):
        super().__init__()
        self.H = heads
        self.scale = (dim // heads) ** -0.5
        self.seat = nn.Embedding(SEATS, dim)
        self.Wq = nn.Linear(dim, dim)
        self.Wk = nn.Linear(dim, dim)
        self.Wv = nn.Linear(dim, dim)
        self.Wo = nn.Linear(dim, dim)

    def forward(self, hand, table, seats, unseen=None):
        B, h, D = hand.shape
        table += self.seat(seats)
        Q = self.Wq(hand).view(B, h, self.H, -1).transpose(1, 2)
        K = self.Wk(table).view(B, -1, self.H, D // self.H).transpose(1, 2)
        V = self.Wv(table).view(B, -1, self.H, D // self.H).transpose(1, 2)
        e = (Q @ K.transpose(2, 3)) / self.scale
        if unseen is not None:
            e = e.masked_fill(unseen.view(B, 1, 1, -1), float("-inf"))
        y = torch.softmax(e, -1) @ V
        return self.Wo(y.transpose(1, 2).reshape(B, h, D))


class SkatNet(nn.Module):
    def __init__(self, dim=24, heads=3):
        super().__init__()
        self.card = nn.Embedding(N_CARDS, dim)
        self.look = TableAttention(dim, heads)
        self.play = nn.Linear(dim, 1)

    def forward(self, hand_ids, table_ids, seats, unseen):
        hand, table = self.card(hand_ids), self.card(table_ids)
        x = hand + self.look(hand, table, seats, unseen)
        return self.play(x).squeeze(-1).softmax(-1)


def legal(hand_ids, led_suit):
    """Follow suit when possible."""
    same = hand_ids // RANKS == led_suit
    return torch.where(same.any(-1, keepdim=True), same, torch.ones_like(same))
