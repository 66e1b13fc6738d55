"""스트리밍 음성 인식용 컨볼루션 모듈 (Conformer).

pointwise -> GLU -> causal depthwise -> norm -> SiLU -> pointwise.
스트리밍에서는 직전 (kernel_size - 1) 프레임을 캐시로 넘겨 준다.
전체 발화를 한 번에 넣은 결과와 조각내어 넣은 결과가 같다.
"""
from typing import Optional, Tuple

import torch
import torch.nn as nn
import torch.nn.functional as F


class CausalConvModule(nn.Module):
    def __init__(self, channels: int = 32, kernel_size: int = 5, dropout: float = 0.1):
        super().__init__()
        self.left = kernel_size - 1
        self.norm_in = nn.LayerNorm(channels)
        self.pointwise_in = nn.Linear(channels, 2 * channels)
        self.depthwise = nn.Conv1d(channels, channels, kernel_size, groups=channels)
        self.norm_mid = nn.LayerNorm(channels)
        self.pointwise_out = nn.Linear(channels, channels)
        self.dropout = nn.Dropout(dropout)

    def init_cache(self, batch: int, channels: int) -> torch.Tensor:
        return torch.zeros(batch, self.left, channels)

    def forward(
        self, x: torch.Tensor, cache: Optional[torch.Tensor] = None
    ) -> Tuple[torch.Tensor, torch.Tensor]:
        """x: (B, T, C), cache: (B, kernel_size - 1, C)"""
        residual = x
        if cache is None:
            cache = self.init_cache(x.size(0), x.size(2)).to(x)

        y = F.glu(self.pointwise_in(self.norm_in(x)), dim=-1)
        y = torch.cat([cache, y], dim=1)
        new_cache = y[:, y.size(1) - self.left:]

        y = self.depthwise(y.transpose(1, 2)).transpose(1, 2)
        y = F.silu(self.norm_mid(y))
        y = self.dropout(self.pointwise_out(y))
        return residual + y, new_cache


class StreamingFrontEnd(nn.Module):
    """CausalConvModule 을 여러 층 쌓은 것. 상태는 층마다 하나."""

    def __init__(self, channels: int = 32, layers: int = 3):
        super().__init__()
        self.blocks = nn.ModuleList([CausalConvModule(channels) for _ in range(layers)])
        self.head = nn.Linear(channels, 40)

    def forward(self, x, states=None):
        states = states or [None] * len(self.blocks)
        out = []
        for block, state in zip(self.blocks, states):
            x, state = block(x, state)
            out.append(state)
        return self.head(x).log_softmax(dim=-1), out


if __name__ == "__main__":
    net = StreamingFrontEnd().eval()
    wave = torch.randn(1, 16, 32)
    whole, _ = net(wave)
    first, st = net(wave[:, :6])
    rest, _ = net(wave[:, 6:], st)
    print((whole - torch.cat([first, rest], 1)).abs().max())
