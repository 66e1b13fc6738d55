"""
Decoder layer of our TTS: kernelised attention, phi(x) = elu(x) + 1, causal.

    out_i = phi(q_i) S_i / (phi(q_i) . z_i)
    S_i = sum_{j<=i} phi(k_j) v_j^T ,   z_i = sum_{j<=i} phi(k_j)

No softmax and no 1/sqrt(d) here: the kernel takes their place.
Training uses chunks of CHUNK frames; synthesis uses `step`.
"""
import torch
import torch.nn as nn
import torch.nn.functional as F

CHUNK = 16


def phi(x):
    return F.elu(x) + 1


def causal_kernel_attention(q, k, v, chunk=CHUNK, eps=1e-6):
    """q, k [B, H, T, D] already through phi; v [B, H, T, M]."""
    B, H, T, D = q.shape
    S = q.new_zeros(B, H, D, v.shape[-1])
    z = q.new_zeros(B, H, D)
    outs = []
    for a in range(0, T, chunk):
        qc, kc, vc = q[:, :, a:a + chunk], k[:, :, a:a + chunk], v[:, :, a:a + chunk]
        inner = (qc @ kc.transpose(-1, -2)).tril()
        num = qc @ S + inner @ vc
        den = (qc * z.unsqueeze(2)).sum(-1) + inner.sum(-1)
        outs.append(num / (den.unsqueeze(-1) + eps))
        S = S + kc.transpose(-1, -2) @ vc
        z = z + kc.sum(2)
    return torch.cat(outs, dim=2)


class KernelAttention(nn.Module):
    def __init__(self, d_model, n_head):
        super().__init__()
        self.n_head = n_head
        self.q = nn.Linear(d_model, d_model)
        self.k = nn.Linear(d_model, d_model)
        self.v = nn.Linear(d_model, d_model)
        self.o = nn.Linear(d_model, d_model)

    def heads(self, x):
        return x.unflatten(-1, (self.n_head, -1)).transpose(1, 2)

    def forward(self, x):
        q, k, v = phi(self.heads(self.q(x))), phi(self.heads(self.k(x))), self.heads(self.v(x))
        return self.o(causal_kernel_attention(q, k, v).transpose(1, 2).flatten(2))

    def step(self, x, state=None):
        """One frame: x [B, d_model]; state (S, z) or None at the start."""
        split = lambda t: t.unflatten(-1, (self.n_head, -1))
        q, k, v = phi(split(self.q(x))), phi(split(self.k(x))), split(self.v(x))
        S, z = state if state is not None else (0.0, 0.0)
        S = S + torch.einsum("bhd,bhm->bhdm", k, v)
        z = z + k
        y = torch.einsum("bhd,bhdm->bhm", q, S) / ((q * z).sum(-1, keepdim=True) + 1e-6)
        return self.o(y.flatten(1)), (S, z)


class MelLayer(nn.Module):
    def __init__(self, d_model=64, n_head=4):
        super().__init__()
        self.norm1, self.norm2 = nn.LayerNorm(d_model), nn.LayerNorm(d_model)
        self.att = KernelAttention(d_model, n_head)
        self.conv = nn.Conv1d(d_model, d_model, 5)

    def forward(self, x):
        x = x + self.att(self.norm1(x))
        y = F.pad(self.norm2(x).transpose(1, 2), (4, 0))
        return x + F.gelu(self.conv(y)).transpose(1, 2)
