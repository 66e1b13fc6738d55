import torch
import torch.nn as nn


def build_alibi(n_head):
    # n_head is a power of two here
    return torch.tensor([2 ** (-8 * (i + 1) / n_head) for i in range(n_head)])


class BloomSelfAttn(nn.Module):
    """Causal self attention with linear biases (ALiBi) and a growing cache.

    x: (B, T, n_embd); past: None or (k, v), each (B, n_head, T_past, head_dim).
    Returns (B, T, n_embd) and the new (k, v).
    """

    def __init__(self, n_embd: int, n_head: int = 4):
        super().__init__()
        assert n_embd % n_head == 0 and n_head & (n_head - 1) == 0
        self.n_head, self.hd = n_head, n_embd // n_head
        self.query_key_value = nn.Linear(n_embd, 3 * n_embd)
        self.dense = nn.Linear(n_embd, n_embd)
        self.register_buffer("slopes", build_alibi(n_head))

    def forward(self, x, past=None):
        B, T, C = x.shape
        # bloom packs the projection head by head: (n_head, 3, head_dim)
        fused = self.query_key_value(x).view(B, T, self.n_head, 3, self.hd)
        q, k, v = (fused[..., i, :].transpose(1, 2) for i in range(3))
        if past is not None:
            k = torch.cat([past[0], k], dim=2)
            v = torch.cat([past[1], v], dim=2)
        S = k.size(2)
        i = torch.arange(S - T, S, device=x.device).unsqueeze(1)
        j = torch.arange(S, device=x.device).unsqueeze(0)
        bias = -self.slopes.view(-1, 1, 1) * (i - j)
        bias = bias.masked_fill(j > i, float("-inf"))
        probs = torch.softmax(q @ k.transpose(2, 3) * self.hd ** -0.5 + bias, dim=-1)
        y = (probs @ v).transpose(1, 2).contiguous().view(B, T, C)
        return self.dense(y), (k, v)
