import numpy as np


def sigmoid(z):
    return 1.0 / (1.0 + np.exp(-z))


def local_p_attention(h_t, h_s, params, D=2):
    """Luong et al. 2015, section 3.2, local attention with predictive alignment ("local-p").

        p_t = S * sigmoid(v_p . tanh(W_p h_t))
        a_t(s) = align(h_t, h_s) * exp(-(s - p_t)^2 / (2 sigma^2)),   sigma = D / 2,  p_t - D <= s <= p_t + D
        h~_t = tanh(W_c [c_t; h_t])

    align is the softmax of the "general" score over the window.  As in the paper the Gaussian is not normalised
    away, so the weights sum to less than one.  h_t (n,), h_s (S, n).  Returns h~_t (n,), a_t (S,).
    """
    S = len(h_s)
    p_t = S * sigmoid(params["v_p"] @ np.tanh(params["W_p"] @ h_t))
    s = np.arange(S)
    window = np.abs(s - p_t) <= D

    score = h_s @ (params["W_a"] @ h_t)
    align = np.zeros(S)
    inside = np.exp(score[window] - score[window].max())
    align[window] = inside / inside.sum()

    a_t = align * np.exp(-((s - p_t) ** 2) / (2 * (D / 2) ** 2))
    c_t = a_t @ h_s
    return np.tanh(params["W_c"] @ np.concatenate([c_t, h_t])), a_t
