import math

import numpy as np


def attend_slowly(queries, keys, values):
    result = np.zeros((len(queries), values.shape[1]))
    for i, q in enumerate(queries):
        scores = []
        for k in keys:
            total = 0.0
            for a, b in zip(q, k):
                total += a * b
            scores.append(total / math.sqrt(len(q)))
        biggest = max(scores)
        exps = [math.exp(s - biggest) for s in scores]
        z = sum(exps)
        for weight, v in zip(exps, values):
            result[i] += weight / z * v
    return result
