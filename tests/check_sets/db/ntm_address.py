"""Read head of a Neural Turing Machine (content + location addressing), NumPy."""
import numpy as np


def address(memory, key, beta, gate, shift, gamma, previous):
    """
    memory   (B, N, M)   N cells of width M
    key      (B, H, M)   one key per head
    beta     (B, H)      sharpness of the content match, > 0
    gate     (B, H)      in [0, 1]; 1 = content only, 0 = previous weights only
    shift    (B, H, 3)   distribution over a move of -1, 0, +1 cells (circular)
    gamma    (B, H)      >= 1
    previous (B, H, N)   weights of the last step
    returns  read (B, H, M), weights (B, H, N)
    """
    dot = np.einsum("bhm,bnm->bhn", key, memory)
    size = np.linalg.norm(key, axis=-1)[..., None] * np.linalg.norm(memory, axis=-1)[:, None, :]
    match = beta[..., None] * dot / (size + 1e-12)
    match = np.exp(match - match.max(axis=-1, keepdims=True))
    content = match / match.sum(axis=-1, keepdims=True)

    mixed = gate[..., None] * content + (1 - gate[..., None]) * previous
    moved = (shift[..., 0:1] * np.roll(mixed, -1, axis=-1)
             + shift[..., 1:2] * mixed
             + shift[..., 2:3] * np.roll(mixed, 1, axis=-1))

    top = moved.max(axis=-1, keepdims=True)
    sharp = (moved / top) ** gamma[..., None]
    weights = sharp / sharp.sum(axis=-1, keepdims=True)
    return np.einsum("bhn,bnm->bhm", weights, memory), weights
