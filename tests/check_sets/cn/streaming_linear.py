"""Causal linear attention for the streaming denoiser.

Katharopoulos et al. 2020: similarity phi(q).phi(k) with phi = elu + 1, hence no
softmax and no 1/sqrt(d).  For frame t

    num_t = sum_{s<=t} phi(k_s) v_s^T
    den_t = sum_{s<=t} phi(k_s)
    y_t   = phi(q_t) num_t / (phi(q_t) . den_t)

`forward` handles a whole clip, `step` one frame with a carried state; both give
the same numbers (see the bottom of the file).
"""
import torch
import torch.nn.functional as F
from torch import nn


def phi(x):
    return F.elu(x) + 1.0


class StreamingLinearAttention(nn.Module):
    def __init__(self, dim=32, heads=4, eps=1e-6):
        super().__init__()
        self.h, self.d, self.eps = heads, dim // heads, eps
        self.in_proj = nn.Linear(dim, 3 * dim)
        self.out_proj = nn.Linear(dim, dim)

    def _heads(self, x):
        q, k, v = self.in_proj(x).chunk(3, -1)
        shape = x.shape[:-1] + (self.h, self.d)
        return phi(q.view(shape)), phi(k.view(shape)), v.view(shape)

    def forward(self, x):
        """x [B, T, dim] -> [B, T, dim], frame t depends on frames 0..t"""
        q, k, v = self._heads(x)                                    # [B, T, h, d]
        num = torch.einsum("bthi,bthj->bthij", k, v).cumsum(dim=1)
        den = k.cumsum(dim=1)
        top = torch.einsum("bthi,bthij->bthj", q, num)
        bot = (q * den).sum(-1, keepdim=True)
        y = top / (bot + self.eps)
        return self.out_proj(y.flatten(-2))

    def init_state(self, batch, device=None):
        return (torch.zeros(batch, self.h, self.d, self.d, device=device),
                torch.zeros(batch, self.h, self.d, device=device))

    def step(self, frame, state):
        """frame [B, dim] -> (out [B, dim], new state)"""
        num, den = state
        q, k, v = self._heads(frame)                                # [B, h, d]
        num = num + k.unsqueeze(-1) * v.unsqueeze(-2)
        den = den + k
        top = (q.unsqueeze(-2) @ num).squeeze(-2)
        bot = (q * den).sum(-1, keepdim=True)
        return self.out_proj((top / (bot + self.eps)).flatten(-2)), (num, den)


if __name__ == "__main__":
    m = StreamingLinearAttention().eval()
    x = torch.randn(2, 7, 32)
    s, ys = m.init_state(2), []
    for t in range(7):
        y, s = m.step(x[:, t], s)
        ys.append(y)
    print((torch.stack(ys, 1) - m(x)).abs().max())
