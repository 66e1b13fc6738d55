"""Pick-and-place policy: joint history attends to itself, causal, action per step.

Policy(obs_dim, act_dim, dim, heads, p)(obs): obs [B, T, obs_dim] -> actions
[B, T, act_dim] in (-1, 1).  Row t depends on obs[:, :t+1] only.  p is the dropout
probability on the attention weights while training; on the robot (policy.eval()) the
policy is deterministic.
"""
import torch
from torch import nn
from torch.nn import functional as F


class Normaliser(nn.Module):
    """running mean and deviation, updated while training"""

    def __init__(self, n, momentum=0.01):
        super().__init__()
        self.momentum = momentum
        self.register_buffer("mu", torch.zeros(n))
        self.register_buffer("var", torch.ones(n))

    def forward(self, x):
        if self.training:
            flat = x.detach().flatten(0, -2)
            self.mu = self.mu.lerp(flat.mean(0), self.momentum)
            self.var = self.var.lerp(flat.var(0, unbiased=False), self.momentum)
        return (x - self.mu) / (self.var + 1e-6).sqrt()


class Mixer(nn.Module):
    def __init__(self, dim, heads, p):
        super().__init__()
        self.heads, self.p = heads, p
        self.ln = nn.LayerNorm(dim)
        self.qkv = nn.Linear(dim, 3 * dim)
        self.proj = nn.Linear(dim, dim)

    def forward(self, x):
        B, T, D = x.shape
        q, k, v = self.qkv(self.ln(x)).split(D, dim=-1)
        q, k, v = (t.reshape(B, T, self.heads, -1).transpose(1, 2) for t in (q, k, v))
        y = F.scaled_dot_product_attention(q, k, v, dropout_p=self.p, is_causal=True)
        return x + self.proj(y.transpose(1, 2).reshape(B, T, D))


class Policy(nn.Module):
    def __init__(self, obs_dim, act_dim, dim=32, heads=4, p=0.1, depth=2):
        super().__init__()
        self.norm = Normaliser(obs_dim)
        self.inp = nn.Linear(obs_dim, dim)
        self.body = nn.Sequential(*(Mixer(dim, heads, p) for _ in range(depth)))
        self.head = nn.Linear(dim, act_dim)

    def forward(self, obs):
        return torch.tanh(self.head(self.body(self.inp(self.norm(obs)))))

    @torch.no_grad()
    def act(self, history):
        """history: list of [obs_dim] tensors, newest last"""
        return self(torch.stack(history)[None])[0, -1]
