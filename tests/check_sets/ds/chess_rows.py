"""Axial attention on a chess board, homework 4.

A board is an array of 8 ranks x 8 files x 8 channels.  The mixer below lets the
squares of one rank talk to each other; ranks do not see one another.
"""
import numpy as np


def softmax(z):
    z = np.exp(z - z.max(axis=-1, keepdims=True))
    return z / z.sum(axis=-1, keepdims=True)


def one_hot_pieces(fen_rows):
    """Eight strings of eight characters -> (8, 8, 8): p n b r q k, empty, colour of the piece."""
    board = np.zeros((8, 8, 8))
    for r, row in enumerate(fen_rows):
        for f, ch in enumerate(row):
            if ch == ".":
                board[r, f, 6] = 1.0
            else:
                board[r, f, "pnbrqk".index(ch.lower())] = 1.0
                board[r, f, 7] = 1.0 if ch.isupper() else -1.0
    return board


class RankMixer:
    """Single-head self-attention inside every rank.

    wq, wk, wv, wo: (8, 8) matrices, used as x @ w.

    mixer(x): x (8 ranks, 8 files, 8 channels) -> (8, 8, 8),
        out[r] = softmax(q[r] k[r]^T / sqrt(8)) v[r] wo      for each rank r,
    the softmax being over the files that are looked at.
    """

    def __init__(self, wq, wk, wv, wo):
        self.wq, self.wk, self.wv, self.wo = wq, wk, wv, wo

    def __call__(self, x):
        q, k, v = x @ self.wq, x @ self.wk, x @ self.wv
        scores = q @ k.T / np.sqrt(q.shape[-1])
        return softmax(scores) @ v @ self.wo
