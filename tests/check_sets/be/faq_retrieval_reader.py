"""Reader on top of the FAQ retriever.

One question attends to the passages that the retriever returned.  The loader
builds `blocked` once per batch and hands the same tensor to every reader layer and to
the scorer, so nobody may write to it.
"""
import torch
from torch import nn


class PassageReader(nn.Module):
    """
    question  (B, T, D)
    passages  (B, P, D)
    blocked   (B, P) float, 1.0 = empty slot of the retriever, 0.0 = passage
    extra     (B, P) float or None, log prior of the retriever
    """

    def __init__(self, d: int, n_head: int = 2):
        super().__init__()
        self.n_head = n_head
        self.norm_q = nn.LayerNorm(d)
        self.norm_p = nn.LayerNorm(d)
        self.lin_q = nn.Linear(d, d)
        self.lin_kv = nn.Linear(d, 2 * d)
        self.lin_o = nn.Linear(d, d)

    def forward(self, question, passages, blocked, extra=None):
        b, t, d = question.shape
        h = self.n_head
        q = self.lin_q(self.norm_q(question)).view(b, t, h, d // h).transpose(1, 2)
        k, v = self.lin_kv(self.norm_p(passages)).view(b, -1, 2, h, d // h).permute(2, 0, 3, 1, 4)

        bias = blocked
        bias *= -1e9
        if extra is not None:
            bias = bias + extra
        s = torch.matmul(q, k.transpose(2, 3)) / (d // h) ** 0.5
        s = s + bias[:, None, None, :]
        w = s.softmax(-1)
        o = torch.matmul(w, v).transpose(1, 2).flatten(2)
        return question + self.lin_o(o)


class ReaderStack(nn.Module):
    def __init__(self, d=32, layers=2):
        super().__init__()
        self.layers = nn.ModuleList(PassageReader(d) for _ in range(layers))
        self.score = nn.Bilinear(d, d, 1)

    def forward(self, question, passages, blocked, extra=None):
        x = question
        for layer in self.layers:
            x = layer(x, passages, blocked, extra)
        pooled = x.mean(1, keepdim=True).expand_as(passages).contiguous()
        logits = self.score(pooled, passages).squeeze(-1)
        return logits.masked_fill(blocked != 0, float("-inf"))


def pad_passages(lists, d):
    """list of (n_i, d) tensors -> passages, blocked"""
    p = max(len(x) for x in lists)
    out = torch.zeros(len(lists), p, d)
    blocked = torch.ones(len(lists), p)
    for i, x in enumerate(lists):
        out[i, : len(x)] = x
        blocked[i, : len(x)] = 0.0
    return out, blocked


if __name__ == "__main__":
    net = ReaderStack()
    ps, bl = pad_passages([torch.randn(3, 32), torch.randn(5, 32)], 32)
    print(net(torch.randn(2, 6, 32), ps, bl))
