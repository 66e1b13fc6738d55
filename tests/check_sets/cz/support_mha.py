import torch
from torch import nn


def lengths_to_valid(lengths, n):
    return lengths.unsqueeze(1) > torch.arange(n, device=lengths.device)


class TicketMixer(nn.MultiheadAttention):
    """Customer turns (B, T, D) read agent turns (B, S, D); agent_len (B,) >= 1 real agent turns.

    Returns the mixed turns and the head-averaged weights (B, T, S).
    """

    def __init__(self, D=16, heads=4):
        super().__init__(D, heads, batch_first=True)
        self.post = nn.LayerNorm(D)

    def forward(self, customer, agent, agent_len):
        valid = lengths_to_valid(agent_len, agent.size(1))
        got, w = super().forward(customer, agent, agent, key_padding_mask=valid.logical_not(),
                                 need_weights=True)
        return self.post(customer + got), w
