"""Transformers are RNNs (Katharopoulos et al. 2020), ecuaciones (9) a (12).

Atención lineal causal: en lugar de softmax(QK^T) se usa el núcleo
    sim(q, k) = φ(q)^T φ(k),   φ(x) = elu(x) + 1
y por tanto, para la posición i,
    V'_i = φ(Q_i)^T S_i / (φ(Q_i)^T Z_i),   S_i = Σ_{j<=i} φ(K_j) V_j^T,   Z_i = Σ_{j<=i} φ(K_j).
No hay softmax ni factor 1/sqrt(D): así está en el artículo.
"""
import torch
import torch.nn as nn
import torch.nn.functional as F


class AtencionLineal(nn.Module):
    """x: (lote, N, dim) -> (lote, N, dim). La posición i ve las posiciones 0..i.

    `reales` (lote, N) bool, True = posición real, False = relleno por la derecha;
    el relleno no entra en S ni en Z.
    """

    def __init__(self, dim, cabezas, eps=1e-6):
        super().__init__()
        self.cabezas, self.eps = cabezas, eps
        self.qkv = nn.Linear(dim, 3 * dim, bias=False)
        self.sal = nn.Linear(dim, dim)

    @staticmethod
    def phi(x):
        return F.elu(x) + 1

    def forward(self, x, reales=None):
        B, N, D = x.shape
        Q, K, V = self.qkv(x).view(B, N, 3, self.cabezas, -1).unbind(2)
        Q, K = self.phi(Q), self.phi(K)
        if reales is not None:
            K = K * reales[:, :, None, None].to(K.dtype)
        S = x.new_zeros(B, self.cabezas, K.size(-1), V.size(-1))
        Z = x.new_zeros(B, self.cabezas, K.size(-1))
        ys = []
        for i in range(N):
            S = S + torch.einsum("bhm,bhd->bhmd", K[:, i], V[:, i])
            Z = Z + K[:, i]
            num = torch.einsum("bhm,bhmd->bhd", Q[:, i], S)
            den = torch.einsum("bhm,bhm->bh", Q[:, i], Z) + self.eps
            ys.append(num / den.unsqueeze(-1))
        return self.sal(torch.stack(ys, dim=1).reshape(B, N, D))
