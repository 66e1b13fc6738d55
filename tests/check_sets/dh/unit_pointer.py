"""Which unit gets the order? Selection head of the RTS bot."""
import math
import torch
import torch.nn as nn


class UnitPicker(nn.Module):
    """core (B, core_dim), units (B, U, unit_dim), selectable (B, U) bool
    -> log probabilities (B, U + 1); the last slot is "nobody" and is always allowed.
    Logits are squashed to [-clip, clip] as in neural combinatorial optimisation.
    """

    def __init__(self, core_dim, unit_dim, key_dim=16, clip=10.0):
        super().__init__()
        self.clip = clip
        self.ask = nn.Linear(core_dim, key_dim)
        self.key = nn.Linear(unit_dim, key_dim)
        self.nobody = nn.Parameter(torch.randn(key_dim))
        self.mix_q = nn.Linear(key_dim, key_dim)

    def forward(self, core, units, selectable):
        b = core.shape[0]
        keys = torch.cat([self.key(units), self.nobody.expand(b, 1, -1)], dim=1)
        allowed = torch.cat([selectable, selectable.new_ones(b, 1)], dim=1)
        q = self.ask(core)
        root = math.sqrt(keys.shape[-1])

        # glimpse: first look over the units, then decide
        g = torch.einsum("bd,bud->bu", q, keys) / root
        g = g.masked_fill(~allowed, float("-inf")).softmax(-1)
        q = self.mix_q(q + torch.einsum("bu,bud->bd", g, keys))

        u = self.clip * torch.tanh(torch.einsum("bd,bud->bu", q, keys) / root)
        u = u.masked_fill(~allowed, float("-inf"))
        return torch.log_softmax(u, dim=-1)
