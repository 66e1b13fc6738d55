import torch
import torch.nn as nn


class CoAttention(nn.Module):
    """Lets every word of the question look at the image.

    words (B, T, dw), regions (B, N, dr) -> visual context of each word (B, T, dr), weights (B, T, N)
    """

    def __init__(self, dw, dr):
        super().__init__()
        self.W_b = nn.Linear(dw, dr, bias=False)

    def forward(self, words, regions):
        affinity = torch.tanh(self.W_b(words) @ regions.transpose(1, 2))
        weights = nn.functional.softmax(affinity, dim=1)
        return weights @ regions, weights
