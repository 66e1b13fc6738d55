"""Context pass of the re-ranker: results shown together look at each other."""
import numpy as np


def _soften(rows):
    z = rows - rows.max(axis=-1, keepdims=True)
    np.exp(z, out=z)
    return z / z.sum(axis=-1, keepdims=True)


def _as_parts(table, n_parts):
    n, width = table.shape
    return table.reshape(n, n_parts, width // n_parts)


def rerank_context(results, session, w_ask, w_tell, w_say, n_parts=2):
    """Let every search result read the other results of its own session.

    results : (N, D) rows of many sessions, in any order
    session : (N,) session id of each row; rows of other sessions are never read
    w_ask, w_tell, w_say : (D, D), applied as ``results @ w``
    Returns (N, D), parts concatenated.
    """
    asks = _as_parts(results @ w_ask, n_parts)
    tells = _as_parts(results @ w_tell, n_parts)
    says = _as_parts(results @ w_say, n_parts)
    out = np.zeros_like(says)
    for sid in np.unique(session):
        at = np.flatnonzero(session == sid)
        grid = np.einsum("ipd,jpd->pij", asks[at], tells[at])
        grid = _soften(grid / np.sqrt(asks.shape[-1]))
        out[at] = np.einsum("pij,jpd->ipd", grid, says[at])
    return out.reshape(len(results), -1)
