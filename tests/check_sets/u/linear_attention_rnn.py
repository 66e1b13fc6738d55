import torch
import torch.nn as nn
import torch.nn.functional as F


class CausalLinearAttention(nn.Module):
    """Transformers are RNNs (Katharopoulos et al., 2020), phi(x) = elu(x) + 1.

    x: (batch, time, dim). `forward` handles whole sequences, `step` one frame with a state.
    """

    def __init__(self, dim=16, heads=4, eps=1e-6):
        super().__init__()
        self.heads, self.eps = heads, eps
        self.qkv = nn.Linear(dim, 3 * dim, bias=False)
        self.out = nn.Linear(dim, dim)

    def _split(self, x):
        b, t, _ = x.shape
        q, k, v = self.qkv(x).view(b, t, 3, self.heads, -1).permute(2, 0, 3, 1, 4)
        return F.elu(q) + 1, F.elu(k) + 1, v

    def forward(self, x):
        q, k, v = self._split(x)
        kv = torch.einsum("bhtd,bhte->bhtde", k, v).cumsum(2)
        z = 1 / (torch.einsum("bhtd,bhtd->bht", q, k.cumsum(2)) + self.eps)
        y = torch.einsum("bhtd,bhtde,bht->bhte", q, kv, z)
        return self.out(y.transpose(1, 2).flatten(2))

    def step(self, x, state=None):
        q, k, v = (a[:, :, 0] for a in self._split(x[:, None]))
        s, z = state if state is not None else (0.0, 0.0)
        s = s + k[..., :, None] * v[..., None, :]
        z = z + k
        y = torch.einsum("bhd,bhde->bhe", q, s) / ((q * z).sum(-1, keepdim=True) + self.eps)
        return self.out(y.flatten(1)), (s, z)
