"""Reconhecimento de emoção na fala, bloco de atenção no estilo jadore801120."""
import numpy as np
import torch
from torch import nn


class BlocoAtencao(nn.Module):
    """
    quadros (B, T, D): espectrograma projetado
    pad     (B, T) bool: True nos quadros de enchimento. Eles não podem ser lidos por ninguém;
            cada áudio da lote tem o seu próprio comprimento (pelo menos um quadro real).
    Atenção de várias cabeças com resíduo e LayerNorm; saída (B, T, D).
    """

    def __init__(self, D=32, n_head=4):
        super().__init__()
        self.n_head = n_head
        self.d = D // n_head
        self.w_q = nn.Linear(D, D)
        self.w_k = nn.Linear(D, D)
        self.w_v = nn.Linear(D, D)
        self.fc = nn.Linear(D, D)
        self.norma = nn.LayerNorm(D)

    def _dobra(self, z):
        B, T, _ = z.shape
        z = z.view(B, T, self.n_head, self.d)
        return z.permute(2, 0, 1, 3).contiguous().view(-1, T, self.d)     # (n*B) x T x d

    def forward(self, quadros, pad):
        B, T, D = quadros.shape
        q = self._dobra(self.w_q(quadros))
        k = self._dobra(self.w_k(quadros))
        v = self._dobra(self.w_v(quadros))

        mascara = pad.unsqueeze(1).expand(-1, T, -1)                      # B x T x T
        mascara = mascara.repeat_interleave(self.n_head, dim=0)
        att = torch.bmm(q, k.transpose(1, 2)) / np.power(self.d, 0.5)
        att = att.masked_fill(mascara, -np.inf).softmax(2)

        s = torch.bmm(att, v).view(self.n_head, B, T, self.d)
        s = s.permute(1, 2, 0, 3).contiguous().view(B, T, D)
        return self.norma(quadros + self.fc(s))
