"""Cross-sectional model: every asset of the universe looks at all the others on a date.

DeskAttention(width, desks, leak=0.1)

forward(universe)
    universe  (D, A, width)   D trading dates, A assets (always the full universe)
returns
    signal    (D, A, width)
    exposure  (D, desks, A, A)   how much asset i (row) leans on asset j (column)

Each of the `desks` heads has width / desks features and divides its logits by the square
root of THAT number.  `leak` is a dropout on the exposures and belongs to training only:
in eval() the model must give the same signal each time it is asked.
"""
import torch
import torch.nn as nn
import torch.nn.functional as F


class DeskAttention(nn.Module):
    def __init__(self, width, desks, leak=0.1):
        super().__init__()
        self.width, self.desks, self.leak = width, desks, leak
        self.bid = nn.Linear(width, width, bias=False)
        self.ask = nn.Linear(width, width, bias=False)
        self.carry = nn.Linear(width, width, bias=False)
        self.book = nn.Linear(width, width)

    def forward(self, universe):
        D, A, _ = universe.shape
        per = self.width // self.desks
        bid = self.bid(universe).view(D, A, self.desks, per)
        ask = self.ask(universe).view(D, A, self.desks, per)
        carry = self.carry(universe).view(D, A, self.desks, per)

        match = torch.einsum("dihp,djhp->dhij", bid, ask)
        match = match * self.width ** -0.5
        exposure = match.softmax(-1)
        exposure = F.dropout(exposure, self.leak)

        signal = torch.einsum("dhij,djhp->dihp", exposure, carry)
        return self.book(signal.reshape(D, A, self.width)), exposure
