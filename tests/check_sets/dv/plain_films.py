"""Film suggestions without any library, for the workshop laptops."""
from math import exp, sqrt


def dot(a, b):
    return sum(x * y for x, y in zip(a, b))


def profile(candidate, watched, ratings=None):
    """Taste vector of a user with respect to one candidate film.

    candidate : list of d floats, vector of the film we think of
    watched   : list of n >= 1 vectors (lists of d floats) of the films the user saw
    ratings   : optional list of n entries, a number (kept) or None (film was not rated: it is
                left out; at least one film is rated)

    The weight of film j is exp(candidate . watched[j] / sqrt(d)) divided by the sum of these over
    the films that count. Returns (vector, weights): the weighted mean of the watched vectors, and
    the n weights (0.0 for films left out).
    """
    n, d = len(watched), len(candidate)
    use = [ratings is None or ratings[j] is not None for j in range(n)]
    logit = [dot(candidate, film) / sqrt(d) for film in watched]

    peak = max(l for l, u in zip(logit, use) if u)
    raw = [exp(l - peak) if u else 0.0 for l, u in zip(logit, use)]
    total = sum(raw)
    weights = [r / total for r in raw]

    vector = [0.0] * d
    for w, film in zip(weights, watched):
        for c in range(d):
            vector[c] += w * film[c]
    return vector, weights


def rank(films, watched, ratings=None):
    """Names of the films (dict name -> vector), best first, by vector . profile."""
    def points(name):
        return dot(films[name], profile(films[name], watched, ratings)[0])
    return sorted(films, key=points, reverse=True)
