"""Registration of aerial photographs: dual-softmax matching of coarse cells (LoFTR).

Two images give cell descriptors f0 [B, N, C], f1 [B, M, C].
    sim  = (f0 / sqrt(C)) . (f1 / sqrt(C)) / temperature              [B, N, M]
    conf = softmax(sim over the cells of image 0) * softmax(sim over the cells of image 1)
conf is high only when both cells choose each other; its rows do not sum to one.
Cells under the data border are excluded: m0 [B, N], m1 [B, M] bool, True = usable, at
least one usable cell in each image. Excluded pairs have conf 0.

warp(f0, f1, xy1, ...) gives, for each cell of image 0, the conf-weighted mean of the
coordinates xy1 [B, M, 2] (weights made to sum to one), and the total confidence; cells
that are not usable get NaN coordinates.
"""
import torch


def dual_softmax(f0, f1, m0, m1, temperature=0.1):
    C = f0.size(-1)
    sim = torch.einsum("bnc,bmc->bnm", f0 / C ** 0.5, f1 / C ** 0.5) / temperature
    bad0 = ~m0[:, :, None]
    bad1 = ~m1[:, None, :]
    low = torch.finfo(sim.dtype).min
    over0 = sim.masked_fill(bad0, low).softmax(dim=1)
    over1 = sim.masked_fill(bad1, low).softmax(dim=2)
    return (over0 * over1).masked_fill(bad0 | bad1, 0.0)


def warp(f0, f1, xy1, m0, m1, temperature=0.1):
    conf = dual_softmax(f0, f1, m0, m1, temperature)
    total = conf.sum(-1, keepdim=True)
    xy = conf @ xy1 / total
    return xy.masked_fill(~m0[..., None], float("nan")), total.squeeze(-1)


def mutual(conf, thr=0.2):
    """index pairs (b, n, m) that are the maximum of row and column and above thr"""
    best = (conf == conf.amax(1, keepdim=True)) & (conf == conf.amax(2, keepdim=True))
    return (best & (conf > thr)).nonzero()


def fit_shift(xy0, xy1, w):
    """weighted mean displacement: xy [N, 2], w [N] -> [2]"""
    return ((xy1 - xy0) * w[:, None]).sum(0) / w.sum()
