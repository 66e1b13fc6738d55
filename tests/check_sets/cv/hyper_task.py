import torch
import torch.nn as nn
import torch.nn.functional as F


class HyperAttention(nn.Module):
    """Self attention whose q/k/v weights are generated from a task vector (multi-task robot policy).

    tokens (B, L, D), task (B, Z) -> (B, L, D). Each sample has its own weights:
    W = W0 + low-rank update A(z) B(z). The usual multi-head layout: head i owns the channels
    i*D/heads ... (i+1)*D/heads. Deterministic after .eval().
    """

    def __init__(self, D=32, Z=6, heads=4, rank=2, p=0.1):
        super().__init__()
        self.D, self.heads, self.rank, self.p = D, heads, rank, p
        self.base = nn.Parameter(torch.randn(3, D, D) * D ** -0.5)
        self.gen_a = nn.Linear(Z, 3 * D * rank)
        self.gen_b = nn.Linear(Z, 3 * rank * D)
        self.out = nn.Linear(D, D)

    def weights(self, task):
        a = self.gen_a(task).view(-1, 3, self.D, self.rank)
        b = self.gen_b(task).view(-1, 3, self.rank, self.D)
        return self.base + a @ b / self.rank                        # B, 3, D, D

    def forward(self, tokens, task):
        B, L, D = tokens.shape
        qkv = torch.einsum("bld,bcde->cble", tokens, self.weights(task))
        d = D // self.heads
        q, k, v = qkv.contiguous().view(3, B, self.heads, L, d)
        att = torch.softmax(q @ k.transpose(-1, -2) / d ** 0.5, -1)
        att = F.dropout(att, self.p)
        y = (att @ v).transpose(1, 2).reshape(B, L, D)
        return self.out(y)
