"""Interpolation of station temperatures to arbitrary points.

Nadaraya-Watson regression on the sphere, i.e. attention whose score is not a dot
product: the score of a station is -(distance / length)**2 / 2 with the great-circle
distance in km, plus a penalty for the difference in altitude.  Each hour has its own
gaps: stations reporting NaN in that hour are skipped, and an hour in which no station
reports gives NaN everywhere.
"""
import numpy as np

EARTH_KM = 6371.0


def great_circle(lat1, lon1, lat2, lon2):
    p1, l1, p2, l2 = (np.radians(a) for a in (lat1, lon1, lat2, lon2))
    h = np.sin((p1 - p2) / 2) ** 2 + np.cos(p1) * np.cos(p2) * np.sin((l1 - l2) / 2) ** 2
    return 2 * EARTH_KM * np.arcsin(np.sqrt(np.clip(h, 0, 1)))


class StationInterpolator:
    def __init__(self, length_km=150.0, alt_scale_m=400.0):
        self.length_km = length_km
        self.alt_scale_m = alt_scale_m

    def fit(self, lat, lon, alt):
        self.lat_, self.lon_, self.alt_ = (np.asarray(a, float) for a in (lat, lon, alt))
        return self

    def _scores(self, lat, lon, alt):
        lat, lon, alt = (np.asarray(a, float)[:, None] for a in (lat, lon, alt))
        dist = great_circle(lat, lon, self.lat_[None], self.lon_[None]) / self.length_km
        climb = (alt - self.alt_[None]) / self.alt_scale_m
        return -0.5 * dist ** 2 - 0.5 * climb ** 2

    def predict(self, observed, lat, lon, alt):
        """observed [hours, stations] -> [hours, points]"""
        observed = np.asarray(observed, float)
        scores = self._scores(lat, lon, alt)
        result = np.full((observed.shape[0], scores.shape[0]), np.nan)
        for t, values in enumerate(observed):
            ok = ~np.isnan(values)
            if not ok.any():
                continue
            s = scores[:, ok]
            w = np.exp(s - s.max(axis=1, keepdims=True))
            result[t] = w @ values[ok] / w.sum(axis=1)
        return result


if __name__ == "__main__":
    model = StationInterpolator().fit([48.8, 45.7, 43.3], [2.3, 4.8, 5.4], [35, 170, 10])
    obs = np.array([[11.0, 14.5, 18.0], [10.0, np.nan, 17.2], [np.nan] * 3])
    print(model.predict(obs, [47.0, 44.0], [3.5, 5.0], [200, 50]).round(2))
