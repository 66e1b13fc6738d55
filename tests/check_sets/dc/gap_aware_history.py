import torch
from torch import nn


class GapAwareHistory(nn.Module):
    """User events with time stamps (seconds, ascending).

    events (B, L, D), stamps (B, L) -> (B, L, D). An event reads itself and what came before it; the
    time between two events picks a learned bias (log2 buckets). The result is gated by the event.
    """

    def __init__(self, dim, heads=2, buckets=20):
        super().__init__()
        self.heads, self.buckets = heads, buckets
        self.inp = nn.Linear(dim, 3 * dim, bias=False)
        self.gate = nn.Linear(dim, dim)
        self.out = nn.Linear(dim, dim, bias=False)
        self.gap = nn.Embedding(buckets, heads)

    def forward(self, events, stamps):
        B, L, D = events.shape
        H, d = self.heads, D // self.heads
        q, k, v = self.inp(events).view(B, L, 3, H, d).unbind(dim=2)
        score = torch.einsum("bihd,bjhd->bhij", q, k) / d ** 0.5

        dt = (stamps[:, :, None] - stamps[:, None, :]).clamp(min=0).float()
        bucket = torch.log2(dt + 1).long().clamp(max=self.buckets - 1)
        score = score + self.gap(bucket).permute(0, 3, 1, 2)

        future = torch.ones(L, L, dtype=torch.bool, device=events.device).triu(1)
        prob = score.masked_fill(future, float("-inf")).softmax(dim=-1)
        read = torch.einsum("bhij,bjhd->bihd", prob, v).reshape(B, L, D)
        return self.out(read * torch.sigmoid(self.gate(events)))
