import torch
from torch import nn
import torch.nn.functional as F


class CausalLinearAttention(nn.Module):
    """
    Linear attention for streaming speech enhancement ("Transformers are RNNs").

        y_t = phi(q_t) S_t / (phi(q_t) . z_t),   S_t = sum_{s<=t} phi(k_s) v_s^T,
        z_t = sum_{s<=t} phi(k_s),   phi(x) = elu(x) + 1

    There's no softmax and no 1/sqrt(d) on purpose. Frames: (batch, time, bands).
    `step` is used on the device with a running state, forward for training.
    """

    def __init__(self, bands=24, heads=3):
        super().__init__()
        self.heads = heads
        self.qkv = nn.Linear(bands, 3 * bands)
        self.out = nn.Linear(bands, bands)
        self.eps = 1e-6

    def _project(self, x):
        b, t, c = x.shape
        q, k, v = self.qkv(x).view(b, t, 3, self.heads, c // self.heads).permute(2, 0, 3, 1, 4)
        return F.elu(q) + 1, F.elu(k) + 1, v

    def forward(self, x):
        q, k, v = self._project(x)
        S = torch.einsum("bhtd,bhte->bhtde", k, v).cumsum(2)
        z = k.cumsum(2)
        num = torch.einsum("bhtd,bhtde->bhte", q, S)
        den = (q * z).sum(-1, keepdim=True) + self.eps
        return self.out((num / den).transpose(1, 2).flatten(2))

    def step(self, frame, state=None):
        """frame (batch, bands); state is (S, z) or None at the start."""
        q, k, v = (a.squeeze(2) for a in self._project(frame[:, None]))
        S = k.unsqueeze(-1) * v.unsqueeze(-2)
        z = k
        if state is not None:
            S, z = S + state[0], z + state[1]
        y = torch.einsum("bhd,bhde->bhe", q, S) / ((q * z).sum(-1, keepdim=True) + self.eps)
        return self.out(y.flatten(1)), (S, z)
