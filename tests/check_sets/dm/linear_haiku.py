"""Haiku generator with *linear* attention ("Transformers are RNNs", Katharopoulos 2020).

There is no softmax: with phi(x) = elu(x) + 1

    y_t = phi(q_t)^T  sum_{s<=t} phi(k_s) v_s^T   /   phi(q_t)^T sum_{s<=t} phi(k_s)

so the weights phi(q_t).phi(k_s), s <= t, are positive and are divided by their sum.
No 1/sqrt(d) in this formula.

    q, k (B, H, T, d)   v (B, H, T, e)   ->  (B, H, T, e)

`parallel` is for training, `Stepper` for writing one character at a time; both
give the same numbers.
"""
import torch
import torch.nn.functional as F


def phi(x):
    return F.elu(x) + 1


def parallel(q, k, v):
    q, k = phi(q), phi(k)
    S = torch.cumsum(k[..., :, None] * v[..., None, :], dim=2)      # B H T d e
    z = torch.cumsum(k, dim=2)
    num = torch.einsum("bhtd,bhtde->bhte", q, S)
    den = (q * z).sum(-1, keepdim=True)
    return num / den


class Stepper:
    def __init__(self):
        self.S, self.z = 0.0, 0.0

    def step(self, q, k, v):
        """q, k (B, H, d), v (B, H, e) of one new character -> (B, H, e)"""
        q, k = phi(q), phi(k)
        self.S = self.S + k[..., :, None] * v[..., None, :]
        self.z = self.z + k
        return (q[..., None, :] @ self.S)[..., 0, :] / (q * self.z).sum(-1, keepdim=True)
