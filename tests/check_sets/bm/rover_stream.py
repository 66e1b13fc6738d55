"""Anomaly scores on rover telemetry, computed on board in a stream.

TELEMETRY NEVER ENDS, so the key/value cache is cut to the last ``window`` samples.
Sample number t (counted from boot) is rotated by t, keys and queries alike;
only differences matter for the scores.  Feeding samples one by one, in chunks, or
all in one call gives the same outputs.
"""
import torch
import torch.nn as nn

CHANNELS = ("bus_v", "bus_i", "wheel_fl", "wheel_fr", "wheel_rl", "wheel_rr", "temp_a", "temp_b")


def _rotate_half(x):
    a, b = x.chunk(2, dim=-1)
    return torch.cat((-b, a), dim=-1)


class Rotary(nn.Module):
    def __init__(self, dim, theta=10000.0):
        super().__init__()
        inv = 1.0 / theta ** (torch.arange(0, dim, 2).float() / dim)
        self.register_buffer("inv", inv, persistent=False)

    def forward(self, x, start):
        t = torch.arange(start, start + x.shape[-2], device=x.device).float()
        f = torch.outer(t, self.inv)
        f = torch.cat((f, f), dim=-1)
        return x * f.cos() + _rotate_half(x) * f.sin()


class StreamAttention(nn.Module):
    """Causal; a sample sees itself and the ``window - 1`` samples before it."""

    def __init__(self, d_model, n_head, window):
        super().__init__()
        self.n_head, self.window = n_head, window
        self.in_proj = nn.Linear(d_model, 3 * d_model)
        self.out_proj = nn.Linear(d_model, d_model)
        self.rotary = Rotary(d_model // n_head)

    def forward(self, x, past=None):
        """x: (B, T, d_model).  past: None, or what the previous call returned second."""
        B, T, D = x.shape
        q, k, v = (
            t.view(B, T, self.n_head, -1).transpose(1, 2) for t in self.in_proj(x).chunk(3, dim=-1)
        )
        n_past = 0 if past is None else past[0].shape[2]
        q, k = self.rotary(q, n_past), self.rotary(k, n_past)
        if past is not None:
            k = torch.cat((past[0], k), dim=2)
            v = torch.cat((past[1], v), dim=2)

        row = torch.arange(n_past, n_past + T, device=x.device)[:, None]
        col = torch.arange(n_past + T, device=x.device)[None, :]
        visible = (col <= row) & (col > row - self.window)
        att = (q @ k.transpose(-2, -1)) / q.shape[-1] ** 0.5
        att = att.masked_fill(~visible, float("-inf")).softmax(dim=-1)
        y = (att @ v).transpose(1, 2).reshape(B, T, D)

        keep = self.window - 1
        cut = max(0, k.shape[2] - keep)
        return self.out_proj(y), (k[:, :, cut:].detach(), v[:, :, cut:].detach())


class Watchdog(nn.Module):
    def __init__(self, d=32, heads=4, window=64, depth=2):
        super().__init__()
        self.embed = nn.Linear(len(CHANNELS), d)
        self.att = nn.ModuleList(StreamAttention(d, heads, window) for _ in range(depth))
        self.ff = nn.ModuleList(nn.Sequential(nn.Linear(d, 2 * d), nn.GELU(), nn.Linear(2 * d, d)) for _ in range(depth))
        self.norm = nn.ModuleList(nn.LayerNorm(d) for _ in range(2 * depth))
        self.next = nn.Linear(d, 2 * len(CHANNELS))

    def forward(self, sample, state=None):
        state = state or [None] * len(self.att)
        x, new = self.embed(sample), []
        for i, (a, f) in enumerate(zip(self.att, self.ff)):
            y, s = a(self.norm[2 * i](x), state[i])
            x = x + y
            x = x + f(self.norm[2 * i + 1](x))
            new.append(s)
        mu, log_s = self.next(x).chunk(2, dim=-1)
        return mu, log_s.clamp(-6, 3), new


@torch.no_grad()
def surprise(net, stream):
    """Yields one number per sample: negative log likelihood of the next one."""
    state, guess = None, None
    for s in stream:
        if guess is not None:
            mu, ls = guess
            yield float((((s - mu) / ls.exp()) ** 2 / 2 + ls).sum())
        mu, ls, state = net(s.view(1, 1, -1), state)
        guess = (mu[0, 0], ls[0, 0])
