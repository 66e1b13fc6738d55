import torch
from torch import nn
import torch.nn.functional as F


class ContentRead(nn.Module):
    """Content-based read head of a neural Turing machine (Graves et al. 2014): w = softmax(beta * cosine(key, memory rows))."""

    def __init__(self, controller, width):
        super().__init__()
        self.to_key = nn.Linear(controller, width)
        self.to_beta = nn.Linear(controller, 1)

    def forward(self, state, memory):
        key = torch.tanh(self.to_key(state))
        beta = F.softplus(self.to_beta(state))
        sim = F.cosine_similarity(key[:, None, :], memory, dim=-1, eps=1e-12)
        w = F.softmax(beta * sim, dim=-1)
        return torch.bmm(w[:, None, :], memory)[:, 0]
