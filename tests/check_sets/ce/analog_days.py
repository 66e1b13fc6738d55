"""Forecast by analog days: attention over the archive of a weather station.

The last 24 hourly readings are the query; every archived day is a key, and the
readings of the day that followed it are its value. The match is scaled
dot-product attention in a learned subspace, so the forecast is a weighted mean of
what came next:

    w = softmax(q W_q (K W_k)^T / sqrt(d)),   forecast = w V

Readings are used as they come from the station (pressure in hPa, so values around
1000; temperature in K), without any normalisation. Days with gaps in the value are
excluded through `usable`.
"""
from __future__ import annotations

import numpy as np


class AnalogForecaster:
    def __init__(self, hours: int = 24, d: int = 8, seed: int = 0):
        rng = np.random.default_rng(seed)
        self.d = d
        self.W_q = rng.normal(0, hours ** -0.5, (hours, d))
        self.W_k = self.W_q + rng.normal(0, 0.1 * hours ** -0.5, (hours, d))
        self.archive: list[np.ndarray] = []

    def add(self, day: np.ndarray) -> None:
        day = np.asarray(day, dtype=float)
        if day.shape != (self.W_q.shape[0],):
            raise ValueError("one reading per hour, please")
        self.archive.append(day)

    def pairs(self):
        days = np.stack(self.archive)
        return days[:-1], days[1:]

    def weights(self, query: np.ndarray, keys: np.ndarray, usable: np.ndarray) -> np.ndarray:
        """query [Q, hours], keys [N, hours], usable [N] -> [Q, N], rows sum to 1."""
        q = query @ self.W_q
        k = keys @ self.W_k
        match = q @ k.T / np.sqrt(self.d)
        e = np.exp(match)
        e = np.where(usable, e, 0.0)
        return e / e.sum(axis=-1, keepdims=True)

    def predict(self, query: np.ndarray, keys=None, values=None) -> np.ndarray:
        """Forecast of the following day, [Q, hours], for query days [Q, hours]."""
        if keys is None:
            keys, values = self.pairs()
        usable = np.isfinite(values).all(axis=-1) & np.isfinite(keys).all(axis=-1)
        keys = np.where(np.isfinite(keys), keys, 0.0)
        w = self.weights(np.atleast_2d(query), keys, usable)
        return w @ np.where(np.isfinite(values), values, 0.0)

    __call__ = predict

    def skill(self, days: np.ndarray) -> float:
        """1 - MSE / MSE of persistence over consecutive days [T, hours]."""
        today, tomorrow = days[:-1], days[1:]
        mse = np.mean((self.predict(today) - tomorrow) ** 2)
        return 1.0 - mse / np.mean((today - tomorrow) ** 2)
