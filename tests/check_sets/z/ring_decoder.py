"""Streaming attention with a ring buffer of the last `window` keys.

Keys go into the ring already rotated at their absolute position; since RoPE depends only on
differences, their order in the buffer does not matter.
"""
import torch
from torch import nn, Tensor


def rope_angles(pos: Tensor, dim: int, theta: float = 10_000.0) -> tuple[Tensor, Tensor]:
    freq = theta ** (-torch.arange(0, dim, 2, device=pos.device, dtype=torch.float32) / dim)
    ang = pos.float()[:, None] * freq
    return ang.cos(), ang.sin()


def rotate_pairs(x: Tensor, cos: Tensor, sin: Tensor) -> Tensor:
    a, b = x[..., 0::2], x[..., 1::2]
    return torch.stack((a * cos - b * sin, a * sin + b * cos), dim=-1).flatten(-2)


class RingState:
    def __init__(self, batch: int, heads: int, window: int, dim: int, like: Tensor):
        self.k = like.new_zeros(batch, heads, window, dim)
        self.v = like.new_zeros(batch, heads, window, dim)
        self.window = window
        self.seen = 0

    def push(self, k: Tensor, v: Tensor) -> None:
        slot = self.seen % self.window
        self.k[:, :, slot] = k
        self.v[:, :, slot] = v
        self.seen += 1

    def read(self) -> tuple[Tensor, Tensor]:
        n = min(self.seen, self.window)
        return self.k[:, :, :n], self.v[:, :, :n]


class StreamingAttention(nn.Module):
    """Each token sees itself and the window - 1 tokens before it.

    forward(x) handles a whole sequence (B, T, C); step(x_t, state) one token (B, C).
    Both give the same numbers.
    """

    def __init__(self, dim: int = 32, heads: int = 4, window: int = 6):
        super().__init__()
        self.heads, self.hd, self.window = heads, dim // heads, window
        self.wq = nn.Linear(dim, dim, bias=False)
        self.wkv = nn.Linear(dim, 2 * dim, bias=False)
        self.wo = nn.Linear(dim, dim, bias=False)

    def new_state(self, x: Tensor) -> RingState:
        return RingState(x.size(0), self.heads, self.window, self.hd, x)

    def _project(self, x: Tensor, start: int):
        B, T, _ = x.shape
        q = self.wq(x).unflatten(-1, (self.heads, self.hd)).transpose(1, 2)
        k, v = self.wkv(x).unflatten(-1, (2, self.heads, self.hd)).unbind(-3)
        k, v = k.transpose(1, 2), v.transpose(1, 2)
        cos, sin = rope_angles(torch.arange(start, start + T, device=x.device), self.hd)
        return rotate_pairs(q, cos, sin), rotate_pairs(k, cos, sin), v

    def forward(self, x: Tensor) -> Tensor:
        q, k, v = self._project(x, 0)
        T = x.size(1)
        i = torch.arange(T, device=x.device)
        gap = i[:, None] - i[None, :]
        allowed = (gap >= 0) & (gap < self.window)
        s = torch.einsum("bhid,bhjd->bhij", q, k) * self.hd ** -0.5
        p = s.masked_fill(~allowed, float("-inf")).softmax(-1)
        return self.wo(torch.einsum("bhij,bhjd->bhid", p, v).transpose(1, 2).flatten(-2))

    @torch.no_grad()
    def step(self, x_t: Tensor, state: RingState) -> Tensor:
        q, k, v = self._project(x_t.unsqueeze(1), state.seen)
        state.push(k[:, :, 0], v[:, :, 0])
        K, V = state.read()
        p = torch.softmax((q @ K.mT) / self.hd ** 0.5, dim=-1)
        return self.wo((p @ V).transpose(1, 2).flatten(-2)).squeeze(1)
