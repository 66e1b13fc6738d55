import torch
from torch import nn


class LuongStep(nn.Module):
    """One step of Luong et al. (2015): a = softmax(h^T W_a s), c = sum a s, h~ = tanh(W_c [c; h])."""

    def __init__(self, size):
        super().__init__()
        self.w_a = nn.Linear(size, size, bias=False)
        self.w_c = nn.Linear(2 * size, size, bias=False)

    def forward(self, h, states):
        """h (B, size), states (B, S, size)"""
        score = torch.bmm(self.w_a(states), h.unsqueeze(2)).squeeze(2)
        a = score.softmax(1)
        c = torch.bmm(a.unsqueeze(1), states).squeeze(1)
        return self.w_c(torch.cat([c, h], dim=1))
