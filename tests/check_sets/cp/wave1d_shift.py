"""1-D shifted-window attention for distributed acoustic sensing (fibre along a pipeline).

The fibre is cut in windows of `window` channels; attention stays inside a window.
In the shifted layer the windows start `shift` channels later, which is done by a
cyclic roll: channel c of the output always belongs to channel c of the input.
The two ends of the fibre are not neighbours, so the window that wraps around is
masked between its two parts.
"""
import torch
import torch.nn as nn


class FibreWindowAttention(nn.Module):
    def __init__(self, dim: int = 32, heads: int = 4, window: int = 8, shift: int = 4):
        super().__init__()
        if not 0 <= shift < window:
            raise ValueError("shift must be in [0, window)")
        self.heads, self.window, self.shift = heads, window, shift
        self.hd = dim // heads
        self.norm = nn.LayerNorm(dim)
        self.qkv = nn.Linear(dim, 3 * dim)
        self.proj = nn.Linear(dim, dim)
        # learned bias by offset (query index - key index) inside the window
        self.rel = nn.Parameter(torch.randn(heads, 2 * window - 1) * 0.02)
        i = torch.arange(window)
        self.register_buffer("rel_idx", i[:, None] - i[None, :] + window - 1, persistent=False)

    def wrap_mask(self, n: int, device) -> torch.Tensor:
        """(n_windows, 1, window, window), True = forbidden"""
        side = torch.zeros(n, dtype=torch.bool, device=device)
        side[n - self.shift:] = True          # after the roll: start of the fibre
        side = side.view(-1, self.window)
        return (side[:, :, None] != side[:, None, :]).unsqueeze(1)

    def forward(self, fibre: torch.Tensor) -> torch.Tensor:
        """fibre: (B, channels, dim), channels a multiple of window. Residual inside."""
        b, n, c = fibre.shape
        x = self.norm(fibre)
        if self.shift:
            x = torch.roll(x, -self.shift, dims=1)
        w = x.view(b, n // self.window, self.window, c)
        q, k, v = self.qkv(w).unflatten(-1, (3, self.heads, self.hd)).permute(3, 0, 1, 4, 2, 5)

        s = q @ k.transpose(-1, -2) * self.hd ** -0.5      # b, nw, heads, window, window
        s = s + self.rel[:, self.rel_idx]
        if self.shift:
            s = s.masked_fill(self.wrap_mask(n, fibre.device), float("-inf"))
        y = s.softmax(dim=-1) @ v
        y = self.proj(y.transpose(2, 3).reshape(b, n, c))
        if self.shift:
            y = torch.roll(y, -self.shift, dims=1)
        return fibre + y
