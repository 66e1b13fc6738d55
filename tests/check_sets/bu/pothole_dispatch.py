# ---------------------------------------------------------------------------
#  pothole_dispatch  --  which pothole does the patching crew drive to next?
#  (ported from the council's C++ planner, hence the m_ and the Hungarian k's)
# ---------------------------------------------------------------------------
import math
from dataclasses import dataclass

import torch
from torch import nn, Tensor

kNegInf: float = float("-inf")


@dataclass(frozen=True)
class PointerParams:
    nWidth: int = 32
    nGlimpses: int = 4
    fClip: float = 10.0


class CrewPointer(nn.Module):
    """
    @brief  Chooses the next stop of a crew.
    @param  ctx      [B, D]     where the crew is and what is left in the truck
    @param  holes    [B, N, D]  embedded potholes
    @param  visited  [B, N]     true = already patched, must never be chosen
    @return log probabilities [B, N]; -inf at the visited holes
    """

    def __init__(self, params: PointerParams = PointerParams()):
        super().__init__()
        assert params.nWidth % params.nGlimpses == 0
        self.m_p = params
        self.m_toGlimpseQ = nn.Linear(params.nWidth, params.nWidth, bias=False)
        self.m_toTriple = nn.Linear(params.nWidth, 3 * params.nWidth, bias=False)
        self.m_join = nn.Linear(params.nWidth, params.nWidth, bias=False)

    # private:
    def _Fold(self, t: Tensor) -> Tensor:
        nBatch, nRows, _ = t.shape
        return t.view(nBatch, nRows, self.m_p.nGlimpses, -1).transpose(1, 2)

    def _Glimpse(self, q: Tensor, k: Tensor, v: Tensor, visited: Tensor) -> Tensor:
        qh, kh, vh = self._Fold(q), self._Fold(k), self._Fold(v)
        compat = qh @ kh.transpose(-2, -1) / math.sqrt(qh.shape[-1])
        compat = compat.masked_fill(visited[:, None, None, :], kNegInf)
        seen = compat.softmax(-1) @ vh                      # [B, G, 1, d]
        return self.m_join(seen.transpose(1, 2).flatten(2))  # [B, 1, D]

    # public:
    def forward(self, ctx: Tensor, holes: Tensor, visited: Tensor) -> Tensor:
        gk, gv, lk = self.m_toTriple(holes).chunk(3, dim=-1)
        q = self.m_toGlimpseQ(ctx).unsqueeze(1)
        glimpse = self._Glimpse(q, gk, gv, visited)
        # one head of the full width here, so the full width is what we divide by
        logit = (glimpse @ lk.transpose(1, 2)).squeeze(1) / math.sqrt(self.m_p.nWidth)
        logit = self.m_p.fClip * torch.tanh(logit)
        logit = logit.masked_fill(visited, kNegInf)
        return logit.log_softmax(dim=-1)


def RollOut(net: CrewPointer, ctx: Tensor, holes: Tensor) -> Tensor:
    """Greedy tour through all holes; returns the order, [B, N]."""
    nBatch, nHoles, _ = holes.shape
    visited = torch.zeros(nBatch, nHoles, dtype=torch.bool)
    order = []
    for _ in range(nHoles):
        pick = net(ctx, holes, visited).argmax(-1)
        visited = visited.scatter(1, pick[:, None], True)
        ctx = holes[torch.arange(nBatch), pick]
        order.append(pick)
    return torch.stack(order, 1)


if __name__ == "__main__":
    torch.manual_seed(7)
    print(RollOut(CrewPointer(), torch.randn(2, 32), torch.randn(2, 6, 32)))
