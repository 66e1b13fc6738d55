"""Streaming gait memory for the exoskeleton (runs on the hip computer, NumPy only).

This is *linear* attention, not the softmax kind.  With phi(x) = elu(x) + 1:

    out_t = sum_{s<=t} (phi(q_t).phi(k_s)) v_s  /  sum_{s<=t} phi(q_t).phi(k_s)

q, k (T, d), v (T, e) -> out (T, e).  The running sums are kept in a state so that
a new sample costs d*e multiplications whatever the length of the walk.
"""
import numpy as np


def phi(x):
    return np.where(x > 0, x + 1.0, np.exp(np.minimum(x, 0.0)))


def fresh(d, e):
    """State before the first sample: S (d, e) and z (d,)."""
    return np.zeros((d, e)), np.zeros(d)


def step(state, q, k, v):
    """One sample: q, k (d,), v (e,). Returns (new state, out (e,))."""
    S, z = state
    fk, fq = phi(k), phi(q)
    S = S + np.outer(fk, v)
    z = z + fk
    return (S, z), fq @ S / (fq @ z)


def walk(q, k, v, state=None):
    """A whole stretch. Pass the state of the previous stretch to go on from there."""
    state = fresh(k.shape[1], v.shape[1]) if state is None else state
    out = np.empty((len(q), v.shape[1]))
    for t in range(len(q)):
        state, out[t] = step(state, q[t], k[t], v[t])
    return out, state


def predict_torque(imu, W, state=None):
    """imu (T, c) -> torque (T,). W is a dict with q, k (c, d), v (c, e) and out (e,)."""
    y, state = walk(imu @ W["q"], imu @ W["k"], imu @ W["v"], state)
    return np.tanh(y) @ W["out"], state
