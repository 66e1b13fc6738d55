import numpy as np


def gaussian_window(h, kappa, text, W, b):
    """One step of the soft window of Graves' handwriting synthesis (2013, eq. 46 to 51).

    h      (batch, hidden)        the first layer's output
    kappa  (batch, K)             where the K bells were in the step before
    text   (batch, U, alphabet)   the string, one-hot
    W, b   (hidden, 3 * K), (3 * K)
    The window's weights phi come from the bells alone and do not sum to one.  Returns window (batch, alphabet), kappa, phi (batch, U).
    """
    alpha, beta, step = np.split(np.exp(h @ W + b), 3, axis=1)
    kappa = kappa + step
    u = np.arange(text.shape[1])
    bells = alpha[:, :, None] * np.exp(-beta[:, :, None] * (kappa[:, :, None] - u) ** 2)
    phi = bells.sum(axis=1)
    return np.einsum("bu,bua->ba", phi, text), kappa, phi
