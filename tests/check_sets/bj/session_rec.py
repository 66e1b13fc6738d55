# Session-based recommender (next click). Sessions in a batch have different
# lengths; positions >= length are padding and must never be attended to.
import torch
import torch.nn as nn


class SessionEncoder(nn.Module):
    def __init__(self, num_items, dim=32, num_heads=4, max_len=50, depth=1):
        super(SessionEncoder, self).__init__()
        self.items = nn.Embedding(num_items + 1, dim, padding_idx=0)
        self.where = nn.Embedding(max_len, dim)
        self.layers = nn.ModuleList([ClickAttention(dim, num_heads) for _ in range(depth)])

    def forward(self, clicks):
        """clicks: LongTensor [B, L], 0 = padding -> session vectors [B, dim]."""
        lengths = (clicks != 0).sum(1)
        x = self.items(clicks) + self.where.weight[: clicks.size(1)]
        for layer in self.layers:
            x = x + layer(x, lengths)
        last = (lengths - 1).clamp(min=0)
        return x[torch.arange(x.size(0)), last]

    def score(self, clicks):
        return self.forward(clicks) @ self.items.weight[1:].t()


def length_mask(lengths, size):
    """[B] -> bool [B, size], True for real clicks."""
    return torch.arange(size, device=lengths.device)[None, :] < lengths[:, None]


class ClickAttention(nn.Module):
    """Bidirectional multi-head attention between the clicks of a session.

    Heads are moved to the front and folded with the batch so that a single
    bmm does the work.
    """

    def __init__(self, dim, num_heads):
        super(ClickAttention, self).__init__()
        assert dim % num_heads == 0
        self.h = num_heads
        self.d = dim // num_heads
        self.w_q = nn.Linear(dim, dim, bias=False)
        self.w_k = nn.Linear(dim, dim, bias=False)
        self.w_v = nn.Linear(dim, dim, bias=False)
        self.fc = nn.Linear(dim, dim)

    def fold(self, x):
        b, l, _ = x.size()
        x = x.view(b, l, self.h, self.d)
        return x.permute(2, 0, 1, 3).contiguous().view(self.h * b, l, self.d)

    def unfold(self, x, b):
        l = x.size(1)
        x = x.view(self.h, b, l, self.d)
        return x.permute(1, 2, 0, 3).contiguous().view(b, l, self.h * self.d)

    def forward(self, x, lengths):
        b, l, _ = x.size()
        q, k, v = self.fold(self.w_q(x)), self.fold(self.w_k(x)), self.fold(self.w_v(x))
        keep = length_mask(lengths, l)
        keep = keep.unsqueeze(1).expand(b, l, l)
        keep = keep.repeat_interleave(self.h, dim=0)
        energy = torch.bmm(q, k.transpose(1, 2)) / self.d ** 0.5
        energy = energy.masked_fill(~keep, torch.finfo(energy.dtype).min)
        attn = torch.softmax(energy, dim=-1)
        return self.fc(self.unfold(torch.bmm(attn, v), b))


def bpr_loss(scores, pos, neg):
    p = scores.gather(1, (pos - 1)[:, None])
    n = scores.gather(1, (neg - 1)[:, None])
    return -torch.log(torch.sigmoid(p - n) + 1e-8).mean()


if __name__ == "__main__":
    net = SessionEncoder(100)
    batch = torch.tensor([[5, 9, 3, 0, 0], [7, 1, 2, 4, 8], [6, 0, 0, 0, 0]])
    print(net.score(batch).shape)
