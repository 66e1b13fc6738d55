"""MEMS 자이로 바이어스 표류 보정 (드론용, 온라인).

- 샘플은 묶음(chunk)으로 들어온다. 캐시에는 최근 W개의 키/값만 남긴다.
- 위치는 전원을 켠 뒤의 샘플 번호(절대 위치)이고 RoPE(반분할)로 넣는다.
- 창 크기 W는 현재 샘플을 포함한다: 샘플 t는 t-W+1 .. t 를 본다.
- 한 번에 전부 넣어도, 나누어 넣어도 결과는 같다.
"""
from dataclasses import dataclass
from typing import Optional

import torch
import torch.nn as nn
from torch import Tensor


@dataclass
class Memory:
    k: Tensor            # [B, H, <=W, d]  회전된 키
    v: Tensor
    seen: int            # 지금까지 받은 샘플 수


class Rotor(nn.Module):
    def __init__(self, d: int, theta: float = 500.0):
        super().__init__()
        self.register_buffer("inv", theta ** (-torch.arange(0, d, 2) / d), persistent=False)

    def forward(self, x: Tensor, pos: Tensor) -> Tensor:
        ang = pos[:, None] * self.inv
        c, s = ang.cos(), ang.sin()
        x1, x2 = x.chunk(2, dim=-1)
        return torch.cat([x1 * c - x2 * s, x2 * c + x1 * s], dim=-1)


class DriftAttention(nn.Module):
    def __init__(self, dim: int = 24, heads: int = 3, window: int = 5):
        super().__init__()
        self.heads, self.d, self.window = heads, dim // heads, window
        self.q = nn.Linear(dim, dim, bias=False)
        self.k = nn.Linear(dim, dim, bias=False)
        self.v = nn.Linear(dim, dim, bias=False)
        self.o = nn.Linear(dim, dim, bias=False)
        self.rotor = Rotor(self.d)

    def _split(self, t: Tensor) -> Tensor:
        return t.unflatten(-1, (self.heads, self.d)).transpose(1, 2)

    def forward(self, x: Tensor, mem: Optional[Memory] = None):
        n = x.shape[1]
        start = 0 if mem is None else mem.k.shape[2]
        pos = torch.arange(start, start + n, device=x.device)
        q = self.rotor(self._split(self.q(x)), pos)
        k = self.rotor(self._split(self.k(x)), pos)
        v = self._split(self.v(x))
        if mem is not None:
            k = torch.cat([mem.k, k], dim=2)
            v = torch.cat([mem.v, v], dim=2)
        total = k.shape[2]
        # 질의는 키 열의 맨 끝에 맞춘다
        lag = torch.arange(total - n, total)[:, None] - torch.arange(total)[None, :]
        hidden = (lag < 0) | (lag > self.window)
        score = (q @ k.transpose(2, 3)) / self.d ** 0.5
        prob = score.masked_fill(hidden.to(x.device), float("-inf")).softmax(dim=-1)
        y = self.o((prob @ v).transpose(1, 2).flatten(2))
        seen = n if mem is None else mem.seen + n
        return y, Memory(k[:, :, -self.window:], v[:, :, -self.window:], seen)


class Temperature(nn.Module):
    """온도 계수는 2차식이면 충분하다."""

    def __init__(self):
        super().__init__()
        self.coef = nn.Parameter(torch.zeros(3))

    def forward(self, celsius: Tensor) -> Tensor:
        dt = celsius - 25.0
        return self.coef[0] + self.coef[1] * dt + self.coef[2] * dt * dt


class GyroBias(nn.Module):
    def __init__(self, dim: int = 24):
        super().__init__()
        self.inp = nn.Linear(4, dim)
        self.attn = DriftAttention(dim)
        self.out = nn.Linear(dim, 3)
        self.temp = Temperature()

    def forward(self, raw: Tensor, celsius: Tensor, mem: Optional[Memory] = None):
        """raw [B, n, 3] rad/s, celsius [B, n] -> (보정된 각속도, 새 기억)"""
        h = self.inp(torch.cat([raw, celsius[..., None] / 50], -1))
        y, mem = self.attn(h, mem)
        return raw - self.out(h + y) - self.temp(celsius)[..., None], mem


if __name__ == "__main__":
    g, mem = GyroBias(), None
    for _ in range(3):
        w, mem = g(torch.randn(1, 4, 3), torch.full((1, 4), 31.0), mem)
    print(w.shape, mem.seen, mem.k.shape)
