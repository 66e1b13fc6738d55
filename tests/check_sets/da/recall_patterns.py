import numpy as np


def recall(patterns, probe, beta=None, steps=3):
    """Dense associative memory (continuous Hopfield network).

    patterns  (N, d) stored patterns, e.g. reference spectra
    probe     (..., d) noisy states
    beta      inverse temperature, 1/sqrt(d) if not given
    steps     number of updates (1 or more), each is one softmax read of the memory
    returns the final state and the retrieval weights (..., N) of the last read
    """
    patterns = np.asarray(patterns, dtype=float)
    state = np.asarray(probe, dtype=float)
    if beta is None:
        beta = 1.0 / np.sqrt(patterns.shape[1])
    weights = np.zeros(state.shape[:-1] + (len(patterns),))
    for _ in range(steps):
        overlap = beta * state @ patterns.T
        overlap -= overlap.max(-1, keepdims=True)
        weights = np.exp(overlap)
        weights /= weights.sum(-1, keepdims=True)
        state = weights @ patterns
    return state, weights
