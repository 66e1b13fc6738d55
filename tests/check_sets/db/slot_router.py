import torch
from torch import nn


class SlotRouter(nn.Module):
    """Slot Attention (Locatello et al.) with learned, not sampled, start slots.

    things: (B, N, d).  alive: optional (B, N) bool, True = the thing exists.
    Slots compete for every thing (the weights of a thing over the slots sum to
    one); each slot then takes the weighted mean of what it won.
    Returns slots (B, n_slots, d).
    """

    def __init__(self, n_slots=4, d=16, rounds=3, eps=1e-8):
        super().__init__()
        self.rounds, self.eps, self.d = rounds, eps, d
        self.start = nn.Parameter(torch.randn(n_slots, d))
        self.norm_in, self.norm_slot, self.norm_mlp = (nn.LayerNorm(d) for _ in range(3))
        self.to_q = nn.Linear(d, d, bias=False)
        self.to_k = nn.Linear(d, d, bias=False)
        self.to_v = nn.Linear(d, d, bias=False)
        self.gru = nn.GRUCell(d, d)
        self.mlp = nn.Sequential(nn.Linear(d, 2 * d), nn.ReLU(), nn.Linear(2 * d, d))

    def forward(self, things, alive=None):
        B, N, d = things.shape
        things = self.norm_in(things)
        k, v = self.to_k(things), self.to_v(things)
        slots = self.start.expand(B, -1, -1)
        for _ in range(self.rounds):
            before = slots
            q = self.to_q(self.norm_slot(slots))
            logits = torch.einsum("bsd,bnd->bsn", q, k) * d ** -0.5
            won = logits.softmax(dim=1)
            if alive is not None:
                won = won * alive[:, None, :]
            share = won / (won.sum(-1, keepdim=True) + self.eps)
            update = torch.einsum("bsn,bnd->bsd", share, v)
            slots = self.gru(update.reshape(-1, d), before.reshape(-1, d)).view(B, -1, d)
            slots = slots + self.mlp(self.norm_mlp(slots))
        return slots
