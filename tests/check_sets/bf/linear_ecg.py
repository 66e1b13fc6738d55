"""Linear-time causal attention for 12-lead ECG at 500 Hz (Katharopoulos et al. 2020)."""
import torch
from torch import nn


def phi(x):
    return nn.functional.elu(x) + 1.0


def causal_linear(q, k, v, eps=1e-6):
    """q, k: (N, H, T, D), v: (N, H, T, M). No softmax and no 1/sqrt(D): the kernel is
    phi(q).phi(k), rows are normalised by the running sum of the keys."""
    q, k = phi(q), phi(k)
    state = torch.cumsum(k.unsqueeze(-1) * v.unsqueeze(-2), dim=2)   # N H T D M
    norm = torch.cumsum(k, dim=2)                                    # N H T D
    num = torch.einsum("nhtd,nhtdm->nhtm", q, state)
    den = torch.einsum("nhtd,nhtd->nht", q, norm)
    return num / (den.unsqueeze(-1) + eps)


class LinearAttentionEncoder(nn.Module):
    def __init__(self, leads=12, width=24, heads=3):
        super().__init__()
        self.heads = heads
        self.stem = nn.Conv1d(leads, width, kernel_size=1)
        self.to_q = nn.Linear(width, width)
        self.to_k = nn.Linear(width, width)
        self.to_v = nn.Linear(width, width)
        self.proj = nn.Linear(width, width)

    def _split(self, t):
        n, l, c = t.shape
        return t.reshape(n, l, self.heads, c // self.heads).permute(0, 2, 1, 3)

    def forward(self, ecg):
        """ecg (N, leads, T) -> (N, T, width); sample t never uses later samples."""
        x = self.stem(ecg).transpose(1, 2)
        q, k, v = (self._split(f(x)) for f in (self.to_q, self.to_k, self.to_v))
        y = causal_linear(q, k, v)
        y = y.permute(0, 2, 1, 3).flatten(2)
        return x + self.proj(y)

    @torch.no_grad()
    def step(self, sample, state=None):
        """One sample (N, leads) of a live recording. state: (S, z) or None."""
        x = self.stem(sample.unsqueeze(-1)).transpose(1, 2)
        q, k, v = (self._split(f(x))[:, :, 0] for f in (self.to_q, self.to_k, self.to_v))
        q, k = phi(q), phi(k)
        kv = torch.einsum("nhd,nhm->nhdm", k, v)
        S, z = (kv, k) if state is None else (state[0] + kv, state[1] + k)
        y = torch.einsum("nhd,nhdm->nhm", q, S) / ((q * z).sum(-1, keepdim=True) + 1e-6)
        return x[:, 0] + self.proj(y.flatten(1)), (S, z)


if __name__ == "__main__":
    net = LinearAttentionEncoder()
    print(net(torch.randn(2, 12, 50)).shape)
