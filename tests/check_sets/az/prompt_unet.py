"""Tiny text-conditioned UNet and DDIM sampler.

While sampling, the prompt is the same at all denoising steps.  What depends on the prompt
alone may therefore be computed once and kept (`prompt_id`); the image features change at
every step.  Training never passes a prompt_id.
"""
import torch
from torch import nn
from torch.nn import functional as F


def timestep_embedding(t, dim, max_period=10000.0):
    half = dim // 2
    freqs = max_period ** (-torch.arange(half, device=t.device) / half)
    a = t[:, None].float() * freqs[None]
    return torch.cat([a.cos(), a.sin()], dim=-1)


class ResBlock(nn.Module):
    def __init__(self, c_in, c_out, t_dim):
        super().__init__()
        self.n1, self.n2 = nn.GroupNorm(4, c_in), nn.GroupNorm(4, c_out)
        self.c1 = nn.Conv2d(c_in, c_out, 3, padding=1)
        self.c2 = nn.Conv2d(c_out, c_out, 3, padding=1)
        self.t = nn.Linear(t_dim, c_out)
        self.skip = nn.Conv2d(c_in, c_out, 1) if c_in != c_out else nn.Identity()

    def forward(self, x, temb):
        h = self.c1(F.silu(self.n1(x))) + self.t(temb)[:, :, None, None]
        return self.skip(x) + self.c2(F.silu(self.n2(h)))


class TextCrossAttention(nn.Module):
    """Pixels ask, words answer.  x [B, C, H, W], words [B, L, D], word_mask [B, L] (True = word)."""

    def __init__(self, channels, text_dim, heads=4):
        super().__init__()
        self.heads = heads
        self.norm = nn.GroupNorm(4, channels)
        self.q = nn.Conv2d(channels, channels, 1, bias=False)
        self.kv = nn.Linear(text_dim, 2 * channels, bias=False)
        self.out = nn.Conv2d(channels, channels, 1)
        self.kept = {}

    def forget(self):
        self.kept.clear()

    def forward(self, x, words, word_mask, prompt_id=None):
        b, c, hh, ww = x.shape
        if prompt_id is not None and prompt_id in self.kept:
            probs, v = self.kept[prompt_id]
        else:
            q = self.q(self.norm(x)).view(b, self.heads, c // self.heads, hh * ww)
            k, v = self.kv(words).view(b, -1, 2, self.heads, c // self.heads).unbind(2)
            sim = torch.einsum("bhdp,blhd->bhpl", q, k) * (c // self.heads) ** -0.5
            sim = sim.masked_fill(~word_mask[:, None, None, :], torch.finfo(sim.dtype).min)
            probs = sim.softmax(-1)
            if prompt_id is not None:
                self.kept[prompt_id] = (probs, v)
        y = torch.einsum("bhpl,blhd->bhdp", probs, v).reshape(b, c, hh, ww)
        return x + self.out(y)


class UNet(nn.Module):
    def __init__(self, img_ch=3, ch=16, text_dim=24, t_dim=32):
        super().__init__()
        self.t_dim = t_dim
        self.t_mlp = nn.Sequential(nn.Linear(t_dim, t_dim), nn.SiLU(), nn.Linear(t_dim, t_dim))
        self.inp = nn.Conv2d(img_ch, ch, 3, padding=1)
        self.d1 = ResBlock(ch, ch, t_dim)
        self.a1 = TextCrossAttention(ch, text_dim)
        self.down = nn.Conv2d(ch, 2 * ch, 3, stride=2, padding=1)
        self.mid = ResBlock(2 * ch, 2 * ch, t_dim)
        self.a2 = TextCrossAttention(2 * ch, text_dim)
        self.u1 = ResBlock(3 * ch, ch, t_dim)
        self.out = nn.Conv2d(ch, img_ch, 3, padding=1)

    def forward(self, x, t, words, word_mask, prompt_id=None):
        temb = self.t_mlp(timestep_embedding(t, self.t_dim))
        h1 = self.a1(self.d1(self.inp(x), temb), words, word_mask, prompt_id)
        h2 = self.a2(self.mid(self.down(h1), temb), words, word_mask, prompt_id)
        up = F.interpolate(h2, scale_factor=2, mode="nearest")
        return self.out(F.silu(self.u1(torch.cat([up, h1], 1), temb)))


class DDIM:
    def __init__(self, steps=1000, lo=1e-4, hi=0.02):
        self.steps = steps
        self.abar = torch.cumprod(1 - torch.linspace(lo, hi, steps), 0)

    @torch.no_grad()
    def sample(self, net, words, word_mask, shape, n=10, prompt_id="prompt"):
        x = torch.randn(shape)
        ts = torch.linspace(self.steps - 1, 0, n).long()
        for i, t in enumerate(ts):
            eps = net(x, t.expand(shape[0]), words, word_mask, prompt_id)
            a = self.abar[t]
            x0 = ((x - (1 - a).sqrt() * eps) / a.sqrt()).clamp(-3, 3)
            nxt = self.abar[ts[i + 1]] if i + 1 < n else torch.tensor(1.0)
            x = nxt.sqrt() * x0 + (1 - nxt).sqrt() * eps
        for m in net.modules():
            if isinstance(m, TextCrossAttention):
                m.forget()
        return x


if __name__ == "__main__":
    torch.manual_seed(0)
    net = UNet()
    words = torch.randn(2, 7, 24)
    mask = torch.arange(7)[None] < torch.tensor([7, 4])[:, None]
    print(DDIM().sample(net, words, mask, (2, 3, 16, 16)).shape)
