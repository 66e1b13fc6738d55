import numpy as np


def πυρήνας(χ, κ, τ):
    """Nadaraya-Watson regression with a Gaussian kernel, seen as attention.

    χ: (n, d) where to estimate;  κ: (m, d) where something was seen;  τ: (m, p) what was seen.
    The score is -|χ_i - κ_j|² / 2 σ², a distance and no product; σ² = √d makes it, for keys of one length, the
    usual χ·κ/√d.  |χ_i|² is left out since it is one number in each row.
    """
    σ2 = np.sqrt(χ.shape[-1])
    ε = (χ @ κ.T - 0.5 * (κ * κ).sum(-1)) / σ2
    ε = ε - ε.max(-1)[:, None]
    np.exp(ε, out=ε)
    return (ε @ τ) / ε.sum(-1)[:, None]
