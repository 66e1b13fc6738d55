"""A hand-made autograd function: attention whose backward recomputes the probabilities
from (q, k, lse), so only O(L) extra numbers are stored.  Query rows go in tiles."""
import torch


class _TiledAttention(torch.autograd.Function):
    @staticmethod
    def forward(ctx, q, k, v, bias, scale, tile):
        outs, lses = [], []
        for i in range(0, q.shape[-2], tile):
            s = _scores(q, k, bias, scale, i, tile)
            lse = torch.logsumexp(s, dim=-1, keepdim=True)
            outs.append(torch.exp(s - lse) @ v)
            lses.append(lse)
        out = torch.cat(outs, -2)
        ctx.save_for_backward(q, k, v, bias, out, torch.cat(lses, -2))
        ctx.cfg = scale, tile
        return out

    @staticmethod
    def backward(ctx, dout):
        q, k, v, bias, out, lse = ctx.saved_tensors
        scale, tile = ctx.cfg
        dq, dk, dv = torch.zeros_like(q), torch.zeros_like(k), torch.zeros_like(v)
        dbias = torch.zeros_like(bias) if bias is not None and ctx.needs_input_grad[3] else None
        delta = (dout * out).sum(-1, keepdim=True)
        for i in range(0, q.shape[-2], tile):
            r = slice(i, i + tile)
            p = torch.exp(_scores(q, k, bias, scale, i, tile) - lse[..., r, :])
            dv += p.mT @ dout[..., r, :]
            ds = p * (dout[..., r, :] @ v.mT - delta[..., r, :])
            dq[..., r, :] = ds @ k * scale
            dk += ds.mT @ q[..., r, :] * scale
            if dbias is not None:
                row = slice(None) if bias.shape[-2] == 1 else r
                dbias[..., row, :] += _sum_to(ds, dbias[..., row, :].shape)
        return dq, dk, dv, dbias, None, None


def _scores(q, k, bias, scale, i, tile):
    s = q[..., i:i + tile, :] @ k.mT * scale
    if bias is not None:
        s = s + (bias if bias.shape[-2] == 1 else bias[..., i:i + tile, :])
    return s


def _sum_to(t, shape):
    while t.dim() > len(shape):
        t = t.sum(0)
    for a, n in enumerate(shape):
        if n == 1 and t.shape[a] != 1:
            t = t.sum(a, keepdim=True)
    return t


def tiled_attention(q, k, v, bias=None, scale=None, tile=64):
    """q [..., Lq, d], k [..., Lk, d], v [..., Lk, dv].

    ``bias`` (floating, broadcastable to the scores, at least 2-D) is ADDED to the scaled scores.
    """
    if scale is None:
        scale = q.shape[-1] ** -0.5
    if bias is not None and not bias.is_floating_point():
        raise TypeError("bias must be floating; turn a keep mask into 0 / -inf first")
    return _TiledAttention.apply(q, k, v, bias, scale, tile)


if __name__ == "__main__":
    torch.manual_seed(0)
    mk = lambda *s: torch.randn(*s, dtype=torch.float64, requires_grad=True)
    q, k, v, b = mk(2, 5, 3), mk(2, 6, 3), mk(2, 6, 4), mk(1, 5, 6)
    print(torch.autograd.gradcheck(lambda *a: tiled_attention(*a, tile=2), (q, k, v, b)))
