#!/usr/bin/env python3
"""ecg_linear.py

Holter monitor: causal *linear* attention (Katharopoulos et al. 2020), constant memory
per heart beat.

  phi(x) = elu(x) + 1
  S_t = S_{t-1} + phi(k_t) v_t^T        z_t = z_{t-1} + phi(k_t)
  y_t = phi(q_t)^T S_t / (phi(q_t)^T z_t)

There is no softmax and no 1/sqrt(d) in this model.
"""
import collections

import numpy as np

Beat = collections.namedtuple("Beat", "rr amplitude width")
State = collections.namedtuple("State", "S z")


def phi(x):
    return np.where(x > 0, x + 1.0, np.exp(np.minimum(x, 0.0)))


def fresh(heads, d, c):
    return State(np.zeros((heads, d, c)), np.zeros((heads, d)))


def beat_step(state, q, k, v):
    """One heart beat: q, k (H, d), v (H, c)."""
    fk = phi(k)
    S = state.S + fk[:, :, None] * v[:, None, :]
    z = state.z + fk
    fq = phi(q)
    y = np.einsum("hd,hdc->hc", fq, S) / np.einsum("hd,hd->h", fq, z)[:, None]
    return State(S, z), y


def holter_attention(q, k, v, state=None):
    """q, k (T, H, d), v (T, H, c) -> y (T, H, c), state"""
    if state is None:
        state = fresh(q.shape[1], q.shape[2], v.shape[2])
    out = np.empty(v.shape)
    for t in range(len(q)):
        state, out[t] = beat_step(state, q[t], k[t], v[t])
    return out, state


def to_features(beats, heads=2, d=4, seed=11):
    x = np.array([[b.rr, b.amplitude, b.width] for b in beats])
    x = (x - x.mean(0)) / (x.std(0) + 1e-9)
    r = np.random.default_rng(seed)
    return [np.einsum("tf,fhd->thd", x, r.normal(size=(3, heads, d))) for _ in range(3)]


def ectopic(rr, limit=0.2):
    """Indices of beats that come too early with respect to the running median."""
    med = np.array([np.median(rr[max(0, i - 8):i + 1]) for i in range(len(rr))])
    return np.flatnonzero(rr < (1 - limit) * med)


if __name__ == "__main__":
    r = np.random.default_rng(0)
    beats = [Beat(0.8 + 0.05 * r.normal(), 1.0 + 0.1 * r.normal(), 0.09) for _ in range(12)]
    y, st = holter_attention(*to_features(beats))
    print(y.shape, st.z.shape, ectopic(np.array([b.rr for b in beats])))
