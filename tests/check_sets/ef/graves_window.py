"""Soft window of Graves' handwriting synthesis (arXiv 1308.0850, eq. 46-51).

soft_window(h, kappa, c, W, b)
    h     (B, H)       state of the first LSTM layer at this pen step
    kappa (B, K)       window positions after the previous step
    c     (B, U, A)    one-hot characters, U = text length; shorter texts are
                       filled with all-zero rows, which add nothing
    W, b  (H, 3K), (3K,)
returns
    w     (B, A)       the window vector given to the next layers
    phi   (B, U)       window weights
    kappa (B, K)

    (alpha, beta, kappa_step) = exp(h W + b), three times K numbers
    kappa_t = kappa_{t-1} + kappa_step
    phi_u   = sum_k alpha_k exp(-beta_k (kappa_k - u)^2),  u = 1..U
    w       = sum_u phi_u c_u
The weights are NOT normalised in the paper: alpha says how much is read.
"""
import numpy as np


def soft_window(h, kappa, c, W, b):
    alpha, beta, move = np.split(np.exp(h @ W + b), 3, axis=1)
    kappa = kappa + move
    u = np.arange(1, c.shape[1] + 1)
    away = kappa[:, :, None] - u[None, None, :]
    phi = (alpha[:, :, None] * np.exp(-beta[:, :, None] * away ** 2)).sum(axis=1)
    w = np.einsum("bu,bua->ba", phi, c)
    return w, phi, kappa


def write(hs, c, W, b):
    """All steps: hs (T, B, H) -> window vectors (T, B, A)."""
    kappa = np.zeros((hs.shape[1], b.size // 3))
    out = []
    for h in hs:
        w, _, kappa = soft_window(h, kappa, c, W, b)
        out.append(w)
    return np.stack(out)
