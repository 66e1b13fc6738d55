"""memes_cosine: match caption words to picture patches (cross attention, numpy).

words   (L, D)    query vectors
patches (M, D)    key vectors
colour  (M, E)    what is read from a patch
tau     float     temperature, 0.07 in the paper

For each word: the cosine between the word vector and every patch vector (both
brought to length 1 over their D numbers), divided by tau, softmax over the
patches, weighted mean of `colour`.  So multiplying a patch vector by a
positive number changes nothing.  Returns ((L, E), weights (L, M)).
"""
import numpy as np


def unit(z, axis):
    return z / (np.linalg.norm(z, axis=axis, keepdims=True) + 1e-8)


def read_colours(words, patches, colour, tau=0.07):
    w = unit(words, axis=1)
    p = unit(patches, axis=0)
    cos = w @ p.T / tau
    cos -= cos.max(axis=1, keepdims=True)
    e = np.exp(cos)
    weights = e / e.sum(axis=1, keepdims=True)
    return weights @ colour, weights
