import torch
import torch.nn as nn


class IntentSlots(nn.Module):
    """Groups the words of a chat message into `k` intents (slot attention).

    The intents compete for every word: for one word the weights over the intents sum to one.
    Each intent then takes the weighted MEAN of the words it won.
    words (B, S, D); real (B, S) bool, True = word (not padding). -> (B, k, D)
    """

    def __init__(self, D=16, k=3, rounds=2, tiny=1e-8):
        super().__init__()
        self.rounds, self.tiny = rounds, tiny
        self.init = nn.Parameter(torch.randn(k, D))
        self.n_in, self.n_sl = nn.LayerNorm(D), nn.LayerNorm(D)
        self.q, self.k, self.v = (nn.Linear(D, D, bias=False) for _ in range(3))
        self.gru = nn.GRUCell(D, D)

    def compete(self, slots, keys, real):
        logits = torch.einsum("bid,bjd->bij", self.q(self.n_sl(slots)), keys) * keys.size(-1) ** -0.5
        share = logits.softmax(1) * real[:, None]
        return share / share.sum(2, keepdim=True).clamp_min(self.tiny)

    def forward(self, words, real):
        B = words.size(0)
        x = self.n_in(words)
        keys, vals = self.k(x), self.v(x)
        slots = self.init.expand(B, -1, -1)
        for _ in range(self.rounds):
            upd = self.compete(slots, keys, real) @ vals
            slots = self.gru(upd.flatten(0, 1), slots.flatten(0, 1)).view(B, *self.init.shape)
        return slots
