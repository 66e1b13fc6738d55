import torch
from torch import Tensor, nn


class HopfieldLayer(nn.Module):
    """Modern Hopfield network (Ramsauer et al. 2021): state <- softmax(beta * state @ patterns^T) @ patterns, `updates` times,
    and then the projection of the retrieved patterns."""

    def __init__(self, dim: int, beta: float = 2.0, updates: int = 2):
        super().__init__()
        self.beta, self.updates = beta, updates
        self.lookup = nn.Linear(dim, dim, bias=False)
        self.value = nn.Linear(dim, dim, bias=False)

    def forward(self, state: Tensor, stored: Tensor) -> Tensor:
        # state (B, T, dim), stored (B, M, dim)
        patterns = self.lookup(stored)
        for _ in range(self.updates):
            state = torch.softmax(self.beta * torch.bmm(state, patterns.transpose(1, 2)), dim=-1) @ patterns
        return self.value(state)
