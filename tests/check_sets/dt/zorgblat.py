"""zorgblat: the causal kernel mixer from planet Z (really: Katharopoulos et al. 2020).

Given three crystals of shape (fleet, swarm, tick, hue):
    zorg   what is sought,  blat   where it lies,  fnord  what is found
the mixture at tick t is

    out_t = sum_{u<=t} <phi(zorg_t), phi(blat_u)> fnord_u / sum_{u<=t} <phi(zorg_t), phi(blat_u)>

with phi(x) = elu(x) + 1. There is no exponential and no root of hue in it: that is the kernel.

    zorgblat(zorg, blat, fnord)             all ticks at once, by chunks of `gulp` ticks
    wibble(state, z, b, f)                  one tick (fleet, swarm, hue) -> (out, new state)
"""
import torch


def phi(x):
    return torch.nn.functional.elu(x) + 1.0


def zorgblat(zorg, blat, fnord, gulp=4):
    z, b = phi(zorg), phi(blat)
    quux = z.new_zeros(*z.shape[:2], z.size(-1), fnord.size(-1))    # what the past holds
    plugh = z.new_zeros(*z.shape[:2], z.size(-1))                   # how much of it there is
    out = []
    for zc, bc, fc in zip(z.split(gulp, 2), b.split(gulp, 2), fnord.split(gulp, 2)):
        near = torch.tril(zc @ bc.transpose(-1, -2))                # within the gulp, u <= t
        top = near @ fc + zc @ quux
        bottom = near.sum(-1) + (zc * plugh.unsqueeze(2)).sum(-1)
        out.append(top / bottom.unsqueeze(-1))
        quux = quux + bc.transpose(-1, -2) @ fc
        plugh = plugh + bc.sum(2)
    return torch.cat(out, 2)


def wibble(state, z, b, f):
    z, b = phi(z), phi(b)
    if state is None:
        state = (z.new_zeros(*b.shape, f.size(-1)), torch.zeros_like(b))
    quux = state[0] + b.unsqueeze(-1) * f.unsqueeze(-2)
    plugh = state[1] + b
    out = (z.unsqueeze(-2) @ quux).squeeze(-2) / (z * plugh).sum(-1, keepdim=True)
    return out, (quux, plugh)
