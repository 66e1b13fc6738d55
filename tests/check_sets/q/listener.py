import torch
import torch.nn as nn


class AttendAndSpell(nn.Module):
    """The attention context of Listen, Attend and Spell: e_u = <phi(s), psi(h_u)>, not scaled, over the frames of each utterance.

    state: (B, Ds), listener: (B, U, Dh), lengths: (B,) number of frames.  Returns context (B, Dh) and alpha (B, U).
    """

    def __init__(self, state_dim, listener_dim, mlp_dim=6):
        super().__init__()
        self.phi = nn.Sequential(nn.Linear(state_dim, mlp_dim), nn.ReLU())
        self.psi = nn.Sequential(nn.Linear(listener_dim, mlp_dim), nn.ReLU())

    def forward(self, state, listener, lengths):
        energy = (self.psi(listener) * self.phi(state)[:, None]).sum(dim=-1)
        frame = torch.arange(listener.size(1), device=lengths.device)
        beyond = frame[None, :] < lengths[:, None]
        energy = energy.masked_fill(beyond, float("-inf"))
        alpha = energy.softmax(dim=-1)
        return torch.bmm(alpha[:, None], listener)[:, 0], alpha
