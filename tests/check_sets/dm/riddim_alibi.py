"""riddim -- drum pattern model.  No position embeddings, ALiBi instead (Press et al. 2022).

hits (B, T, D) -> (B, T, D), causal: step t hears steps 0..t.

    s_h[i, j] = q_i . k_j / sqrt(d) - m_h * (i - j)          j <= i
    m_h = 2^(-8 h / H) for heads h = 1, 2, ..., H            (H a power of two)

e.g. H = 8 gives 1/2, 1/4, ..., 1/256.  Softmax over j.
"""
import torch
import torch.nn as nn


def riddim_slopes(H):
    return torch.tensor([2.0 ** (-8.0 * h / H) for h in range(H)])


class Riddim(nn.Module):
    def __init__(self, D, H):
        super().__init__()
        assert H & (H - 1) == 0 and D % H == 0
        self.H, self.d = H, D // H
        self.wqkv = nn.Linear(D, 3 * D, bias=False)
        self.wo = nn.Linear(D, D, bias=False)
        self.register_buffer("m", riddim_slopes(H))

    def forward(self, hits):
        B, T, D = hits.shape
        q, k, v = self.wqkv(hits).reshape(B, T, 3, self.H, self.d).permute(2, 0, 3, 1, 4)
        t = torch.arange(T, device=hits.device)
        ago = t[:, None] - t[None, :]                        # i - j
        s = q @ k.transpose(-1, -2) * self.d**-0.5
        s = s - self.m[:, None, None] * ago
        s = s.masked_fill(ago < 0, float("-inf"))
        y = s.softmax(-1) @ v
        return self.wo(y.transpose(1, 2).reshape(B, T, D))
