"""Transformer denoiser for diffusion policies on a mobile manipulator.

Tokens of the horizon (noisy actions) look at earlier tokens of the horizon and at the
condition: one token for the diffusion step, then the observation tokens.  Sensors drop
out on the real robot: `obs_ok` is True where an observation token is usable.  The step
token always is.
"""
import math
from dataclasses import dataclass
from typing import Optional

import torch
from torch import Tensor, nn
from torch.nn.functional import mse_loss, scaled_dot_product_attention


@dataclass
class DenoiserConfig:
    action_dim: int = 7
    obs_dim: int = 20
    horizon: int = 16
    n_obs: int = 4
    width: int = 64
    heads: int = 4
    layers: int = 3
    p_drop: float = 0.1
    causal: bool = True


class CondAttention(nn.Module):
    """Self-attention when cond is None, otherwise attention from x to cond."""

    def __init__(self, cfg: DenoiserConfig):
        super().__init__()
        self.cfg = cfg
        self.wq = nn.Linear(cfg.width, cfg.width)
        self.wkv = nn.Linear(cfg.width, 2 * cfg.width)
        self.wo = nn.Linear(cfg.width, cfg.width)
        self.resid = nn.Dropout(cfg.p_drop)

    def forward(self, x: Tensor, cond: Optional[Tensor] = None, ok: Optional[Tensor] = None) -> Tensor:
        b, t, c = x.shape
        src = x if cond is None else cond
        s = src.shape[1]
        h, d = self.cfg.heads, c // self.cfg.heads
        q = self.wq(x).reshape(b, t, h, d).transpose(1, 2)
        k, v = self.wkv(src).chunk(2, dim=-1)
        k = k.reshape(b, s, h, d).transpose(1, 2)
        v = v.reshape(b, s, h, d).transpose(1, 2)
        y = scaled_dot_product_attention(
            q, k, v,
            attn_mask=None if ok is None else ok.view(b, 1, 1, s),
            dropout_p=self.cfg.p_drop if self.training else 0.0,
            is_causal=self.cfg.causal and cond is None,
        )
        return self.resid(self.wo(y.transpose(1, 2).reshape(b, t, c)))


class DenoiserLayer(nn.Module):
    def __init__(self, cfg: DenoiserConfig):
        super().__init__()
        w = cfg.width
        self.ln_s, self.ln_c, self.ln_f = nn.LayerNorm(w), nn.LayerNorm(w), nn.LayerNorm(w)
        self.self_att, self.cond_att = CondAttention(cfg), CondAttention(cfg)
        self.ff = nn.Sequential(nn.Linear(w, 4 * w), nn.GELU(), nn.Linear(4 * w, w), nn.Dropout(cfg.p_drop))

    def forward(self, x, cond, ok):
        x = x + self.self_att(self.ln_s(x))
        x = x + self.cond_att(self.ln_c(x), cond, ok)
        return x + self.ff(self.ln_f(x))


class StepEmbedding(nn.Module):
    def __init__(self, dim):
        super().__init__()
        self.dim = dim

    def forward(self, k: Tensor) -> Tensor:
        half = self.dim // 2
        f = torch.exp(torch.arange(half, device=k.device) * (-math.log(10000.0) / (half - 1)))
        a = k[:, None].float() * f
        return torch.cat((a.sin(), a.cos()), -1)


class Denoiser(nn.Module):
    def __init__(self, cfg: DenoiserConfig):
        super().__init__()
        self.cfg = cfg
        self.act_in = nn.Linear(cfg.action_dim, cfg.width)
        self.obs_in = nn.Linear(cfg.obs_dim, cfg.width)
        self.step = StepEmbedding(cfg.width)
        self.pos = nn.Parameter(torch.zeros(1, cfg.horizon, cfg.width))
        self.cond_pos = nn.Parameter(torch.zeros(1, cfg.n_obs + 1, cfg.width))
        nn.init.normal_(self.pos, std=0.02)
        nn.init.normal_(self.cond_pos, std=0.02)
        self.layers = nn.ModuleList(DenoiserLayer(cfg) for _ in range(cfg.layers))
        self.ln = nn.LayerNorm(cfg.width)
        self.out = nn.Linear(cfg.width, cfg.action_dim)

    def forward(self, noisy: Tensor, k: Tensor, obs: Tensor, obs_ok: Optional[Tensor] = None) -> Tensor:
        """noisy [B, horizon, A], k [B], obs [B, n_obs, O], obs_ok [B, n_obs] -> predicted noise"""
        cond = torch.cat([self.step(k)[:, None], self.obs_in(obs)], 1) + self.cond_pos
        ok = None
        if obs_ok is not None:
            ok = torch.cat([torch.ones_like(obs_ok[:, :1]), obs_ok], 1)
        x = self.act_in(noisy) + self.pos[:, :noisy.shape[1]]
        for layer in self.layers:
            x = layer(x, cond, ok)
        return self.out(self.ln(x))


class CosineSchedule:
    def __init__(self, n=50, s=0.008):
        t = torch.arange(n + 1) / n
        f = torch.cos((t + s) / (1 + s) * math.pi / 2) ** 2
        self.abar = (f / f[0])[1:].clamp(1e-4, 0.9999)
        self.n = n

    def add_noise(self, a, noise, k):
        ab = self.abar[k][:, None, None]
        return ab.sqrt() * a + (1 - ab).sqrt() * noise

    @torch.no_grad()
    def sample(self, net, obs, obs_ok):
        cfg = net.cfg
        a = torch.randn(obs.shape[0], cfg.horizon, cfg.action_dim)
        for i in reversed(range(self.n)):
            ab = self.abar[i]
            prev = self.abar[i - 1] if i else torch.tensor(1.0)
            eps = net(a, torch.full((obs.shape[0],), i), obs, obs_ok)
            a0 = ((a - (1 - ab).sqrt() * eps) / ab.sqrt()).clamp(-1, 1)
            a = prev.sqrt() * a0 + (1 - prev).sqrt() * eps
        return a


def training_loss(net, sched, actions, obs, obs_ok):
    k = torch.randint(0, sched.n, (actions.shape[0],))
    noise = torch.randn_like(actions)
    return mse_loss(net(sched.add_noise(actions, noise, k), k, obs, obs_ok), noise)


if __name__ == "__main__":
    torch.manual_seed(0)
    net, sched = Denoiser(DenoiserConfig()), CosineSchedule()
    obs, ok = torch.randn(2, 4, 20), torch.tensor([[True] * 4, [True, False, False, True]])
    print(training_loss(net, sched, torch.rand(2, 16, 7), obs, ok).item())
    print(sched.sample(net.eval(), obs, ok).shape)
