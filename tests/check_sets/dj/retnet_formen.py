"""RetNet (Sun et al., 2023): Retention parallel und rekurrent.

Parallel (Gl. 5, ohne die xPos-Drehung):

    Retention(X) = (Q K^T  *  D) V ,    D_nm = gamma^(n-m) fuer n >= m, sonst 0

Rekurrent (Gl. 6):

    S_n = gamma S_{n-1} + K_n^T V_n ,   out_n = Q_n S_n

Es gibt absichtlich kein Softmax; beide Formen liefern dieselben Zahlen. K traegt den
Faktor d_k^(-1/2). Jeder Kopf hat sein eigenes gamma = 1 - 2^(-5-h), danach folgt eine
Norm pro Kopf und das Swish-Tor (Gl. 8).
"""
import torch
from torch import nn
import torch.nn.functional as F


class MultiScaleRetention(nn.Module):
    def __init__(self, d_model=32, heads=4):
        super().__init__()
        self.h, self.d = heads, d_model // heads
        self.W_Q = nn.Linear(d_model, d_model, bias=False)
        self.W_K = nn.Linear(d_model, d_model, bias=False)
        self.W_V = nn.Linear(d_model, d_model, bias=False)
        self.W_G = nn.Linear(d_model, d_model, bias=False)
        self.W_O = nn.Linear(d_model, d_model, bias=False)
        self.register_buffer("gamma", 1 - 2.0 ** (-5 - torch.arange(heads).float()))

    def _qkv(self, x):
        teile = lambda t: t.unflatten(-1, (self.h, self.d))
        return teile(self.W_Q(x)), teile(self.W_K(x)) * self.d ** -0.5, teile(self.W_V(x))

    def _ausgang(self, r, x):
        r = F.layer_norm(r, (self.d,)).flatten(-2)      # GroupNorm, eine Gruppe pro Kopf
        return self.W_O(F.silu(self.W_G(x)) * r)

    def forward(self, x):
        """x (B, T, d_model) -> (B, T, d_model), kausal; alle Folgen gleich lang."""
        T = x.size(1)
        q, k, v = self._qkv(x)
        n = torch.arange(T, device=x.device)
        abstand = n[:, None] - n[None, :]
        D = self.gamma[:, None, None] ** abstand.clamp(min=0)
        D = D * (abstand >= 0)
        s = torch.einsum("bnhd,bmhd->bhnm", q, k) * D
        return self._ausgang(torch.einsum("bhnm,bmhd->bnhd", s, v), x)

    def schritt(self, x_n, S=None):
        """x_n (B, d_model), S (B, H, d, d) oder None -> (Ausgabe (B, d_model), S)."""
        q, k, v = self._qkv(x_n)
        neu = k.unsqueeze(-1) * v.unsqueeze(-2)
        S = neu if S is None else self.gamma[:, None, None] * S + neu
        return self._ausgang((q.unsqueeze(-2) @ S).squeeze(-2), x_n), S
