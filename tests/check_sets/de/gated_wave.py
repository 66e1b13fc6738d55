import numpy as np


def sigmoid(z):
    return 0.5 * (1 + np.tanh(0.5 * z))


def causal_conv(x, w, dilation):
    """x (T, c_in), w (taps, c_in, c_out): tap 0 is the current sample"""
    y = np.zeros((x.shape[0], w.shape[2]))
    for i in range(w.shape[0]):
        lag = i * dilation
        if lag >= len(x):
            break
        y[lag:] += x[:len(x) - lag] @ w[i]
    return y


def wave_stack(x, layers):
    """Gated dilated convolutions for hydrophone audio (WaveNet without the softmax).

    x: (T, c); layers: list of (w_filter, w_gate, w_res, w_skip).
    Returns the sum of the skip paths, (T, c_skip).
    """
    total = 0.0
    for n, (wf, wg, wr, ws) in enumerate(layers):
        h = np.tanh(causal_conv(x, wf, 2 ** n)) * sigmoid(causal_conv(x, wg, 2 ** n))
        total = total + h @ ws
        x = x + h @ wr
    return total
