import numpy as np


def _phi(x):
    # elu(x) + 1
    return np.where(x > 0, x + 1.0, np.exp(np.minimum(x, 0.0)))


def escanear(preguntas, llaves, cosas, estado=None):
    """Causal linear attention as a recurrence.

    preguntas, llaves: (B, T, H, d); cosas: (B, T, H, e). Step t reads steps 0..t.
    estado: None or what the previous call returned, to go on with a longer sequence.
    returns: (B, T, H, e), estado
    """
    B, T, H, d = preguntas.shape
    e = cosas.shape[-1]
    if estado is None:
        S, z = np.zeros((B, H, d, e)), np.zeros((B, H, d))
    else:
        S, z = (a.copy() for a in estado)
    f, g = _phi(preguntas), _phi(llaves)
    salida = np.empty((B, T, H, e))
    for t in range(T):
        S += g[:, t, :, :, None] * cosas[:, t, :, None, :]
        z += g[:, t]
        arriba = np.einsum("bhd,bhde->bhe", f[:, t], S)
        abajo = np.einsum("bhd,bhd->bh", f[:, t], z)
        salida[:, t] = arriba / np.maximum(abajo, 1e-300)[..., None]
    return salida, (S, z)
