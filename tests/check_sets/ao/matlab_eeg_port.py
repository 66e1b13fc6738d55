"""EEG sleep staging, ported from MATLAB (trainSleepNet.m, 2021).

As in MATLAB every sample is a COLUMN: X is [features x time]. So the score matrix is
S = K' * Q  [keys x queries], its columns are normalised, and Y = V * A.
W is a struct there, a dict here: W['q'], W['k'], W['v'] are cell arrays (lists), one
[dh x features] matrix for each head; W['o'] is [features x heads*dh].
"""
import numpy as np


def sm(S):
    # softmax(S) of the Deep Learning Toolbox: along the first dimension
    E = np.exp(S - S.max(axis=0))
    return E / E.sum(axis=0)


def bandpower(sig, fs, lo, hi):
    f = np.fft.rfftfreq(sig.shape[-1], 1 / fs)
    p = np.abs(np.fft.rfft(sig)) ** 2
    sel = (f >= lo) & (f < hi)
    return p[..., sel].mean(-1)


def features(epochs, fs=100):
    """epochs [time x channels x samples] -> [features x time]"""
    bands = [(0.5, 4), (4, 8), (8, 12), (12, 16), (16, 30)]
    F = np.stack([np.log(bandpower(epochs, fs, a, b) + 1e-12) for a, b in bands], -1)
    return F.reshape(F.shape[0], -1).T


def mhsa_columns(X, W, artefact=None):
    """multi-head self attention. artefact: logical [time], true for spoiled epochs,
    which nobody may attend to (at least one epoch must be good)."""
    Y = []
    for Wq, Wk, Wv in zip(W['q'], W['k'], W['v']):
        Q, K, V = Wq @ X, Wk @ X, Wv @ X
        S = K.T @ Q / np.sqrt(Wk.shape[0])
        if artefact is not None:
            S[np.asarray(artefact, bool), :] = -np.inf
        Y.append(V @ sm(S))
    return W['o'] @ np.vstack(Y)


def layernorm(X, g, b):
    mu = X.mean(axis=0)
    sd = X.std(axis=0)
    return g[:, None] * (X - mu) / (sd + 1e-6) + b[:, None]


def block(X, P, artefact=None):
    X = X + mhsa_columns(layernorm(X, P['g1'], P['b1']), P, artefact)
    H = P['w1'] @ layernorm(X, P['g2'], P['b2']) + P['c1'][:, None]
    return X + P['w2'] @ np.maximum(H, 0) + P['c2'][:, None]


def classify(epochs, net, artefact=None):
    X = net['in'] @ features(epochs)
    for P in net['blocks']:
        X = block(X, P, artefact)
    return sm(net['out'] @ X).argmax(axis=0)


def hypnogram_stats(stage):
    names = ['W', 'N1', 'N2', 'N3', 'REM']
    n = len(stage)
    return {s: float((stage == i).sum()) / n for i, s in enumerate(names)}
