"""Декодер распознавателя речи для переговоров портовых лоцманов (УКВ, 16-й канал).

Устройство как у Whisper: акустический кодер даёт ``audio`` [B, T, D],
текстовый декодер печатает по одному токену. Самовнимание причинное,
перекрёстное видит всю запись, кроме хвоста тишины.
"""
from __future__ import annotations

from typing import Optional

import torch
from torch import Tensor, nn


class CachedAttention(nn.Module):
    """Внимание с кэшем.

    ``audio is None``  -> самовнимание (причинное), ключи дописываются в кэш;
    ``audio`` задано   -> перекрёстное, ключи считаются один раз и хранятся.
    ``audio_len`` [B]  -> число настоящих кадров (>= 1), остальные кадры - тишина.
    """

    def __init__(self, width: int, heads: int):
        super().__init__()
        assert width % heads == 0
        self.heads = heads
        self.query = nn.Linear(width, width)
        self.key = nn.Linear(width, width, bias=False)  # как в оригинале, без смещения
        self.value = nn.Linear(width, width)
        self.out = nn.Linear(width, width)

    def _split(self, t: Tensor) -> Tensor:
        b, n, w = t.shape
        return t.view(b, n, self.heads, w // self.heads).transpose(1, 2)

    def forward(
        self,
        x: Tensor,
        audio: Optional[Tensor] = None,
        audio_len: Optional[Tensor] = None,
        cache: Optional[dict] = None,
    ) -> Tensor:
        q = self._split(self.query(x))
        if audio is not None and cache is not None and "k" in cache:
            k, v = cache["k"], cache["v"]
        else:
            src = x if audio is None else audio
            k, v = self._split(self.key(src)), self._split(self.value(src))
            if audio is None and cache is not None and "k" in cache:
                k = torch.cat([cache["k"], k], dim=2)
                v = torch.cat([cache["v"], v], dim=2)
            if cache is not None:
                cache["k"], cache["v"] = k, v

        # корень четвёртой степени с каждой стороны: числа меньше в половинной точности
        s = q.shape[-1] ** -0.25
        logits = (q * s) @ (k * s).transpose(-1, -2)
        n_q, n_k = logits.shape[-2:]
        if audio is None:
            row = torch.arange(n_k - n_q, n_k, device=x.device)
            col = torch.arange(n_k, device=x.device)
            logits = logits.masked_fill(col[None, :] > row[:, None], float("-inf"))
        elif audio_len is not None:
            silent = torch.arange(n_k, device=x.device)[None, :] >= audio_len[:, None]
            logits = logits.masked_fill(silent[:, None, None, :], float("-inf"))
        p = logits.float().softmax(dim=-1).to(q.dtype)
        y = (p @ v).transpose(1, 2).flatten(2)
        return self.out(y)


class DecoderLayer(nn.Module):
    def __init__(self, width: int, heads: int):
        super().__init__()
        self.attn, self.cross = CachedAttention(width, heads), CachedAttention(width, heads)
        self.ln1, self.ln2, self.ln3 = (nn.LayerNorm(width) for _ in range(3))
        self.mlp = nn.Sequential(nn.Linear(width, 4 * width), nn.GELU(), nn.Linear(4 * width, width))

    def forward(self, x, audio, audio_len=None, cache=None):
        own = None if cache is None else cache.setdefault("self", {})
        far = None if cache is None else cache.setdefault("cross", {})
        x = x + self.attn(self.ln1(x), cache=own)
        x = x + self.cross(self.ln2(x), audio, audio_len, far)
        return x + self.mlp(self.ln3(x))


if __name__ == "__main__":
    layer = DecoderLayer(32, 4).eval()
    wave, state = torch.randn(2, 11, 32), {}
    for _ in range(3):
        print(layer(torch.randn(2, 1, 32), wave, torch.tensor([11, 6]), state).shape)
