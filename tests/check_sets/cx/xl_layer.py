import torch
import torch.nn as nn


def distance_table(n, dim):
    """Rows 0..n-1: [sin | cos] of the distance, base 10000."""
    inv = 10000.0 ** (-torch.arange(0, dim, 2, dtype=torch.float32) / dim)
    ang = torch.arange(n, dtype=torch.float32)[:, None] * inv[None, :]
    return torch.cat([ang.sin(), ang.cos()], dim=-1)


class MusicXL(nn.Module):
    """Segment-recurrent attention with relative distances (Dai et al. 2019, eq. of section 3.3).

    score(i, j) = (q_i + u) . k_j + (q_i + w) . r_{i-j},  divided by sqrt(head size)

    segment : [B, T, D], memory : [B, M, D] (M may be 0). A note sees all of the memory, the
    earlier notes of its segment and itself.
    """

    def __init__(self, dim, heads):
        super().__init__()
        self.h, self.d = heads, dim // heads
        self.q = nn.Linear(dim, dim, bias=False)
        self.kv = nn.Linear(dim, 2 * dim, bias=False)
        self.r = nn.Linear(dim, dim, bias=False)
        self.o = nn.Linear(dim, dim, bias=False)
        self.u = nn.Parameter(torch.zeros(heads, self.d).normal_(std=0.2))
        self.w = nn.Parameter(torch.zeros(heads, self.d).normal_(std=0.2))

    def forward(self, segment, memory):
        B, T, D = segment.shape
        M = memory.shape[1]
        S = M + T
        whole = torch.cat([memory.detach(), segment], 1)
        q = self.q(segment).view(B, T, self.h, self.d)
        k, v = (t.view(B, S, self.h, self.d) for t in self.kv(whole).chunk(2, -1))
        r = self.r(distance_table(S, D).to(segment)).view(S, self.h, self.d)
        gap = torch.arange(M, S)[:, None] - torch.arange(S)[None, :]      # i - j
        gap = gap.to(segment.device)
        content = torch.einsum("bthd,bshd->bhts", q + self.u, k)
        by_gap = torch.einsum("bthd,ghd->bhtg", q + self.w, r)            # every distance once
        pick = gap.clamp(min=0).expand(B, self.h, T, S)
        position = by_gap.gather(-1, pick)
        score = (content + position) / self.d ** 0.5
        score = score.masked_fill(gap < 0, float("-inf"))
        out = torch.einsum("bhts,bshd->bthd", score.softmax(-1), v)
        return self.o(out.reshape(B, T, D))
