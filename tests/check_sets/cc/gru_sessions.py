# GRU4Rec-like session model used as the baseline in our offline comparison.
"""Session recommender: item embeddings -> GRU -> last state and mean state -> scores.

No weighting of the steps is learned: the mean is over the real clicks only.
Sessions are padded on the right with item 0.
"""
import torch
from torch import nn
from torch.nn.utils.rnn import pack_padded_sequence, pad_packed_sequence


class SessionGRU(nn.Module):
    def __init__(self, n_items: int = 50, dim: int = 16, hidden: int = 24, dropout: float = 0.1):
        super().__init__()
        self.items = nn.Embedding(n_items + 1, dim, padding_idx=0)
        self.gru = nn.GRU(dim, hidden, batch_first=True)
        self.mix = nn.Linear(2 * hidden, dim)
        self.drop = nn.Dropout(dropout)

    def states(self, clicks: torch.Tensor, lengths: torch.Tensor) -> torch.Tensor:
        x = self.drop(self.items(clicks))
        packed = pack_padded_sequence(x, lengths.cpu(), batch_first=True, enforce_sorted=False)
        out, _ = self.gru(packed)
        out, _ = pad_packed_sequence(out, batch_first=True, total_length=clicks.size(1))
        return out

    def forward(self, clicks: torch.Tensor) -> torch.Tensor:
        real = clicks != 0
        lengths = real.sum(1)
        h = self.states(clicks, lengths)
        rows = torch.arange(len(clicks), device=clicks.device)
        last = h[rows, lengths - 1]
        mean = (h * real.unsqueeze(-1)).sum(1) / lengths.unsqueeze(-1)
        user = torch.tanh(self.mix(torch.cat([last, mean], dim=-1)))
        return user @ self.items.weight[1:].T


def recall_at(scores: torch.Tensor, target: torch.Tensor, k: int = 10) -> float:
    """target holds item ids starting at 1"""
    top = scores.topk(k, dim=-1).indices + 1
    return (top == target.unsqueeze(-1)).any(-1).float().mean().item()


if __name__ == "__main__":
    model = SessionGRU().eval()
    s = torch.tensor([[3, 7, 7, 2], [9, 1, 0, 0]])
    print(recall_at(model(s), torch.tensor([4, 5])))
