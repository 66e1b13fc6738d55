"""Action chunking policy for the two-arm kitchen cell (trained from teleoperation logs)."""
import math
import torch
from torch import nn


def sinusoid(n_pos, dim):
    pos = torch.arange(n_pos, dtype=torch.float32)[:, None]
    freq = torch.exp(torch.arange(0, dim, 2, dtype=torch.float32) * (-math.log(10000.0) / dim))
    table = torch.zeros(n_pos, dim)
    table[:, 0::2] = torch.sin(pos * freq)
    table[:, 1::2] = torch.cos(pos * freq)
    return table


class StyleEncoder(nn.Module):
    """CVAE encoder: [CLS], joint state and the action chunk go in, mu and logvar come out.

    qpos [B, J], actions [B, T, A], is_pad [B, T] bool, True where the episode
    had already ended. The stack works sequence first, like the rest of this repo.
    """

    def __init__(self, joints=14, actions=14, dim=64, heads=4, latent=16, max_chunk=128):
        super().__init__()
        self.cls = nn.Parameter(torch.randn(1, 1, dim) * 0.02)
        self.in_joint = nn.Linear(joints, dim)
        self.in_action = nn.Linear(actions, dim)
        self.attn = nn.MultiheadAttention(dim, heads)
        self.n1 = nn.LayerNorm(dim)
        self.n2 = nn.LayerNorm(dim)
        self.mlp = nn.Sequential(nn.Linear(dim, 4 * dim), nn.ReLU(), nn.Linear(4 * dim, dim))
        self.head = nn.Linear(dim, 2 * latent)
        self.register_buffer("pos", sinusoid(max_chunk + 2, dim).unsqueeze(1), persistent=False)

    def embed(self, qpos, actions):
        b = qpos.shape[0]
        toks = torch.cat(
            [self.cls.expand(b, 1, -1), self.in_joint(qpos)[:, None], self.in_action(actions)], dim=1
        )
        return toks.transpose(0, 1)                       # [2 + T, B, D]

    def forward(self, qpos, actions, is_pad):
        x = self.embed(qpos, actions)
        always = torch.zeros(is_pad.shape[0], 2, dtype=torch.bool, device=is_pad.device)
        pad = torch.cat([always, is_pad], dim=1)          # cls and qpos are never padding
        qk = x + self.pos[: x.shape[0]]
        a, _ = self.attn(qk, qk, value=x, key_padding_mask=pad, need_weights=False)
        x = self.n1(x + a)
        x = self.n2(x + self.mlp(x))
        mu, logvar = self.head(x[0]).chunk(2, dim=-1)
        return mu, logvar


def temporal_ensemble(chunks, k=0.01):
    """Averages the predictions that overlapping chunks made for one time step; oldest first."""
    w = torch.exp(-k * torch.arange(chunks.shape[0], dtype=chunks.dtype))
    return (chunks * (w / w.sum())[:, None]).sum(0)


def kl_standard_normal(mu, logvar):
    return -0.5 * (1 + logvar - mu ** 2 - logvar.exp()).sum(-1).mean()
