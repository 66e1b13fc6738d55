"""Relations between detected objects (post-processing of our detector, NumPy).

relate(boxes, feats, valid, P, heads)

boxes  (B, N, 4) x1 y1 x2 y2 in pixels
feats  (B, N, D) appearance of each detection
valid  (B, N) bool, True = a detection, False = an empty slot behind the last one
       (every image has at least one detection)
P      dict: wq, wk, wv (D, D), wo (D, D), wg (4, heads), ln (D,)
->     (B, N, D) refined features.  Rows of empty slots are zero.

Each detection gathers from all detections of its image, never from an empty slot; the
logits are dot products over sqrt(D / heads) plus a learned geometry term per head.
"""
import numpy as np


def geometry(boxes):
    """(B, N, 4) -> (B, N, N, 4): log-offsets and log-ratios of box j seen from box i."""
    x1, y1, x2, y2 = np.moveaxis(boxes, -1, 0)
    w, h = np.maximum(x2 - x1, 1.0), np.maximum(y2 - y1, 1.0)
    cx, cy = (x1 + x2) / 2, (y1 + y2) / 2
    me = lambda a: a[:, :, None]
    other = lambda a: a[:, None, :]
    return np.stack(
        [
            np.log(np.abs(other(cx) - me(cx)) / me(w) + 1e-3),
            np.log(np.abs(other(cy) - me(cy)) / me(h) + 1e-3),
            np.log(other(w) / me(w)),
            np.log(other(h) / me(h)),
        ],
        axis=-1,
    )


def relate(boxes, feats, valid, P, heads):
    B, N, D = feats.shape
    d = D // heads
    x = feats / (np.sqrt((feats ** 2).mean(-1, keepdims=True)) + 1e-6) * P["ln"]
    q, k, v = (
        (x @ P[n]).reshape(B, N, heads, d).transpose(0, 2, 1, 3) for n in ("wq", "wk", "wv")
    )
    logits = np.einsum("bhid,bhjd->bhij", q, k) / np.sqrt(d)
    logits = logits + np.moveaxis(geometry(boxes) @ P["wg"], -1, 1)
    logits = np.where(valid[:, None, :, None], logits, -1e9)
    logits = logits - logits.max(axis=-1, keepdims=True)
    a = np.exp(logits)
    a = a / a.sum(axis=-1, keepdims=True)
    y = np.einsum("bhij,bhjd->bihd", a, v).reshape(B, N, D) @ P["wo"]
    return np.where(valid[..., None], feats + y, 0.0)
