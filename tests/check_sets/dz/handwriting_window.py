"""The soft window of Graves' handwriting synthesis ("Generating Sequences With RNNs", 2013), NumPy.

params  (T, 3*K)  outputs of the first LSTM layer after its linear map, one row per pen step:
                  K values for alpha, then K for beta, then K for the kappa increments, all before exp
chars   (U, V)    one-hot text

    kappa_t = kappa_{t-1} + exp(kappa_hat_t),  kappa_0 = 0
    phi(t, u) = sum_k alpha_t^k exp( -beta_t^k (kappa_t^k - u)^2 ),   u = 1..U
    w_t = sum_u phi(t, u) c_u

phi is no distribution: as in the paper it isn't normalised.  Returns w (T, V), phi (T, U).
"""
import numpy as np


def soft_window(params, chars):
    a_hat, b_hat, k_hat = np.split(params, 3, axis=1)
    alpha, beta = np.exp(a_hat), np.exp(b_hat)
    kappa = np.cumsum(np.exp(k_hat), axis=0)
    u = np.arange(1, len(chars) + 1)
    dist = (kappa[:, :, None] - u) ** 2                   # T, K, U
    phi = np.einsum("tk,tku->tu", alpha, np.exp(-beta[:, :, None] * dist))
    return phi @ chars, phi
