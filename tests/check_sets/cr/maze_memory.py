"""Read head of a Neural Turing Machine, used by our maze agent."""
import torch
import torch.nn as nn
import torch.nn.functional as F


class ReadHead(nn.Module):
    def __init__(self, ctrl, width):
        super().__init__()
        self.width = width
        self.fc = nn.Linear(ctrl, width + 6)

    def forward(self, h, memory, w_prev):
        """
        h (B, ctrl) controller state, memory (B, N, width), w_prev (B, N) last weighting (sums to 1).
        Addressing as in Graves et al. 2014, eqs. 5-9:
          content  w_c = softmax_n(beta * cosine(key, M_n))
          gate     w_g = g w_c + (1 - g) w_prev
          shift    w_s(i) = sum_t s(t) w_g(i - t) on a ring, t in {-1, 0, 1}
          sharpen  w = w_s^gamma / sum w_s^gamma
        returns read vector (B, width) and weighting (B, N)
        """
        p = self.fc(h)
        key, beta, gate, shift, gamma = p.split([self.width, 1, 1, 3, 1], dim=-1)
        beta, gate = F.softplus(beta), torch.sigmoid(gate)
        shift, gamma = shift.softmax(-1), 1 + F.softplus(gamma)

        sim = F.cosine_similarity(memory, key.unsqueeze(1), dim=-1, eps=1e-6)
        w = torch.softmax(beta * sim, dim=-1)
        w = gate * w + (1 - gate) * w_prev
        w = (shift[:, 0:1] * torch.roll(w, -1, dims=1)
             + shift[:, 1:2] * w
             + shift[:, 2:3] * torch.roll(w, 1, dims=1))
        w = w.clamp_min(1e-12) ** gamma
        w = w / w.sum(-1, keepdim=True)
        return torch.einsum("bn,bnm->bm", w, memory), w
