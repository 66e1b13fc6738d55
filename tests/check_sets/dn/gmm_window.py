"""Soft window over characters (Graves 2013, handwriting synthesis).

At every step t the decoder's LSTM state gives K Gaussians that can only move
forward along the text:
    alpha, beta, kappa_hat = split(Linear(h_t), 3)       each (B, K)
    alpha = exp(alpha)   beta = exp(beta)   kappa = kappa_old + exp(kappa_hat)
    phi(u) = sum_k alpha_k * exp(-beta_k * (kappa_k - u)^2),  u = 0, 1, ..., U-1
    window = sum_u phi(u) * char_u
As in the paper phi is not normalised.  Padding characters have phi = 0.

WindowDecoder(n_chars, hidden, K)
    forward(strokes, text, lengths)
        strokes  (B, T, 3)
        text     (B, U) character numbers
        lengths  (B,) number of real characters
        ->       hidden states (B, T, hidden), phi (B, T, U)
"""
import torch
from torch import nn
import torch.nn.functional as F


class WindowDecoder(nn.Module):
    def __init__(self, n_chars, hidden=64, K=5):
        super().__init__()
        self.n_chars, self.K = n_chars, K
        self.cell = nn.LSTMCell(3 + n_chars, hidden)
        self.window = nn.Linear(hidden, 3 * K)

    def look(self, h, kappa, chars, real):
        """one step: h (B, hidden), kappa (B, K), chars (B, U, n), real (B, U) bool"""
        alpha, beta, step = self.window(h).exp().chunk(3, dim=-1)
        kappa = kappa + step
        u = torch.arange(chars.size(1), device=h.device, dtype=h.dtype)
        dist = kappa.unsqueeze(-1) - u                                # (B, K, U)
        bumps = alpha.unsqueeze(-1) * torch.exp(-beta.unsqueeze(-1) * dist.square())
        phi = bumps.sum(dim=1) * real                                 # (B, U)
        return torch.bmm(phi.unsqueeze(1), chars).squeeze(1), phi, kappa

    def forward(self, strokes, text, lengths):
        B, T, _ = strokes.shape
        chars = F.one_hot(text, self.n_chars).to(strokes.dtype)
        real = torch.arange(text.size(1), device=text.device)[None] < lengths[:, None]
        h = c = strokes.new_zeros(B, self.cell.hidden_size)
        kappa = strokes.new_zeros(B, self.K)
        w = chars[:, 0]

        hs, phis = [], []
        for t in range(T):
            h, c = self.cell(torch.cat([strokes[:, t], w], dim=-1), (h, c))
            w, phi, kappa = self.look(h, kappa, chars, real)
            hs.append(h)
            phis.append(phi)
        return torch.stack(hs, 1), torch.stack(phis, 1)
