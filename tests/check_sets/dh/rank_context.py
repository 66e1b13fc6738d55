"""Context vector for the ranking service (no numeric libraries on the edge boxes)."""
import math


def _dot(a, b):
    return sum(x * y for x, y in zip(a, b))


def session_context(query, clicked, payload):
    """Summary of the session seen from the current query.

    query    list of d floats
    clicked  list of n vectors (d floats), the clicked documents
    payload  list of n vectors (m floats), what to blend

    Returns a list of m floats and the n shares of the documents.
    An empty session gives an empty context.
    """
    if not clicked:
        return [], []
    root = math.sqrt(len(query))
    logits = [_dot(query, c) / root for c in clicked]
    top = max(logits)
    raw = [math.exp(z - top) for z in logits]
    total = sum(raw)
    share = [r / total for r in raw]
    blend = [sum(s * p[i] for s, p in zip(share, payload)) for i in range(len(payload[0]))]
    return blend, share


def session_contexts(queries, clicked, payload):
    return [session_context(q, clicked, payload)[0] for q in queries]
