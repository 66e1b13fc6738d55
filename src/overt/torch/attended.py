"""The open result of attention on tensors."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from functools import cached_property
from itertools import product
from types import ModuleType
from typing import Any

import array_api_compat.torch as xp
import numpy as np
import torch
from torch import Tensor

from overt import attended, kernels, weights
from overt.bits import settled
from overt.errors import ArgumentError, DtypeError, ShapeError
from overt.grid import WORDS, Cells, check_layout, host
from overt.problem import Problem
from overt.reference import LARGE, Gradient, is_large
from overt.torch import blocks
from overt.torch.arrays import array, tensor
from overt.torch.call import Call
from overt.torch.gradients import pull


class Attended(attended.Attended[Tensor]):
    """Attention of tensors whose output, weights and statistics can be asked for, in memory linear in T and S.

    ``overt.torch.attend`` makes it.  All results are tensors on the device of q, statistics float32, or float64 for
    float64 inputs.  Gradients flow through ``output`` and ``lse``, and through nothing else.

    Where another kernel has computed the output and lse already, ``overt.torch.attend(q, k, v, mask=…, found=(output,
    lse))`` opens that result and computes nothing before it is asked: weights and statistics come from q, k and lse,
    and the output and lse are handed back as they were given.
    """

    def __init__(
        self,
        call: Call,
        tensors: Sequence[Tensor],
        found: tuple[Tensor, Tensor],
        *,
        along: tuple[Any, Any] | None = None,
        dtype: torch.dtype | None = None,
        given: Call | None = None,
    ) -> None:
        """tensors: q, k and v.  dtype: that of the output, where it is rounded from ``found``.

        given: the call with the parameters as the caller has them, where those of ``call`` are wider.
        """
        self._given = given or call
        self._output: Tensor | None = None
        self._call, self._tensors, self._found, self._along = call, tuple(tensors), found, along
        self._dtype = dtype or found[0].dtype
        self._versions = [_version(x) for x in found]

    @cached_property
    def _problem(self) -> Problem:  # type: ignore[override]  # made when it is first needed
        tensors = [x.detach() for x in self._tensors]
        parameters = {name: x.detach() for name, x in self._call.parameters.items()}
        call = self._call.exchanged(parameters)
        problem = replace(call.hosted(*tensors), back=tensor) if self._host else call.opened(*tensors)
        if problem.mask is None or not self._host:
            return problem
        # Once for all questions.
        return replace(problem, mask=settled(problem.mask, problem.shape))

    @property
    def problem(self) -> Problem:
        """What was asked, with every default and broadcast made plain; bfloat16 as the float32 that it stands for."""
        return self._readable

    @cached_property
    def _readable(self) -> Problem:
        problem = self._problem
        if not self._host or problem.q.dtype != WORDS:
            return problem
        tensors = (x.detach().float() for x in self._tensors)
        return replace(self._call.hosted(*tensors), back=tensor)

    @property
    def output(self) -> Tensor:
        """(…, H, T, E) in the dtype of q.  ``gradient`` reads it, and refuses to where it has been written to."""
        # A cached property takes a lock, which torch.compile cannot.
        if self._output is None:
            self._output = self._found[0].to(self._dtype)
        return self._output

    @property
    def lse(self) -> Tensor:
        """(…, H, T) natural log-sum-exp of the masked scores, sinks included; −∞ where nothing is seen."""
        return self._found[1]

    @property
    def weights(self) -> Weights:
        """(…, H, T, S), computed when indexed, and only the cells asked for."""
        return Weights(self._problem, self._lse, self._engine.weights)

    def gradient(self, dy: Tensor | None, dlse: Tensor | None = None) -> Gradient[Tensor]:
        """Vector-Jacobian product with dy (…, H, T, E) and dlse (…, H, T): as with arrays.

        ``torch.autograd`` gives the same through ``output`` and ``lse``.
        """
        for name, slope, result in (("dy", dy, self.output), ("dlse", dlse, self.lse)):
            if slope is None:
                continue
            if not isinstance(slope, Tensor) or not slope.is_floating_point():
                kind = slope.dtype if isinstance(slope, Tensor) else type(slope).__name__
                raise DtypeError(f"{name} is {kind}, not a tensor of floats: convert it")
            check_layout(name, slope)
            if slope.shape != result.shape:
                raise ShapeError(f"{name} has shape {tuple(slope.shape)}, not {tuple(result.shape)}: give the same")
            if slope.device != result.device:
                raise ArgumentError(
                    f"{name} lies on {slope.device}, but q on {result.device}: move it with .to(device)"
                )
        for name, x, version in zip(("output", "lse"), self._found, self._versions, strict=True):
            if _version(x) != version:
                raise ArgumentError(f"the {name} has been written to since, and the gradient reads it: write to a copy")
        inputs = dict(zip("qkv", self._tensors, strict=True)) | self._call.parameters
        output, lse = (x.detach() for x in self._found)
        dy = dy if dy is None else dy.to(output.dtype)
        found = pull(self._call, (output, lse), [True] * len(inputs), dy, dlse, list(inputs.values()))
        by_name = dict(zip(inputs, found, strict=True))
        for name in "qkv":
            by_name[name] = by_name[name].to(self._dtype)
        by_name |= {name: by_name[name].to(x.dtype) for name, x in self._given.parameters.items()}
        return self._call.gradient(by_name)

    @property
    def _host(self) -> bool:
        return self._tensors[0].device.type == "cpu"

    @property
    def _engine(self) -> ModuleType:
        return kernels if self._host else blocks

    @property
    def _lse(self) -> Any:
        lse = self._found[1].detach()
        lse = lse.reshape(self._problem.shape.B, self._problem.shape.H, self._problem.shape.T)
        wide = torch.float64 if self._tensors[0].dtype == torch.float64 else torch.float32
        lse = lse.to(wide).contiguous()
        return array(lse) if self._host else lse

    def _lent(self, x: Any) -> Tensor:
        return self._problem.outward(x.copy() if self._host else x.clone())


class Weights(weights.Weights[Tensor]):
    """Weights (…, H, T, S) before dropout, computed when indexed: tensors on the device of q.

    Slices read nothing back from a device.  Cells picked by arrays of indices do so once, whether any row's sum is so
    large that the cell must be computed from the whole row, and index tensors are read on the host.
    """

    @property
    def dtype(self) -> torch.dtype:
        """float32, or float64 for float64 inputs."""
        return torch.float64 if super().dtype == np.float64 else torch.float32

    def __getitem__(self, index: Any) -> Tensor:
        parts = tuple(_index(part) for part in (index if isinstance(index, tuple) else (index,)))
        return super().__getitem__(parts)

    def _tiles(self, ranges: list[range]) -> Any:
        if self._problem.xp is np:
            return super()._tiles(ranges)
        *outer, t, s = ranges
        result = torch.empty(tuple(map(len, ranges)), dtype=self.dtype, device=self._problem.q.device)
        for place in product(*(range(len(r)) for r in outer)):
            result[place] = self._device_tile([r[i] for r, i in zip(outer, place, strict=True)], t, s)
        return result

    def _device_tile(self, outer: list[int], t: range, s: range) -> Tensor:
        # A rounded lse says too little of rows where it is large, and which these are would be a number to be read
        # back: whole rows know their own sum.
        part, lse = self._part(outer, t, range(self._problem.shape.S))
        found: list[Any] = [
            self._tile(some, lse[..., at])[0, 0, :, s.start : s.stop : s.step] for at, some in blocks.each(part)
        ]
        return torch.cat(found)

    def _picked(self, index: Any) -> Any:
        if self._problem.xp is np:
            return super()._picked(index)
        shape, parts = self._chosen(index)
        return torch.cat([self._device_cells(cells) for cells in parts]).reshape(shape)

    def _device_cells(self, cells: Cells) -> Tensor:
        problem = self._problem
        per_key = problem.shape.H // max(problem.k.shape[1], 1)
        b, h, t, s = cells.b, cells.h, cells.t, cells.s
        scores = problem.score.pairs(xp, problem.q[b, h, t], problem.k[b, h // per_key, s])
        if problem.softcap is not None:
            scores = problem.softcap * torch.tanh(scores / problem.softcap)
        for term in () if problem.bias is None else problem.bias.terms:
            scores = scores + problem.beside(term.at(cells))
        visible = scores != -torch.inf
        if problem.mask is not None:
            shown: Any = problem.mask.visible(blocks.DeviceCells.of_cells(cells, visible.device))
            visible = visible & shown
        lse = self._lse[b, h, t]
        found = torch.where(visible, torch.exp(scores - torch.where(lse == -torch.inf, 0.0, lse)), 0.0)
        # The one number that is read back: without it each cell would cost all of its row.
        if _is_large(lse):
            self._take_device_rows(found, cells, lse)
        return found

    def _take_device_rows(self, found: Tensor, cells: Cells, lse: Tensor) -> None:
        """Cells of rows whose lse says too little, from the row."""
        sizes = self.shape[:-2]
        heads, t, s = (x.reshape(-1) for x in (cells.b * self._problem.shape.H + cells.h, cells.t, cells.s))
        for i in torch.nonzero(lse.isfinite() & (lse.abs() > LARGE))[:, 0].tolist():
            outer = [int(x) for x in np.unravel_index(heads[i], sizes)] if sizes else []
            row = range(int(t[i]), int(t[i]) + 1)
            found[i] = self._device_tile(outer, row, range(self._problem.shape.S))[0, int(s[i])]


def _version(x: Tensor) -> int:
    """How often a tensor has been written to, as far as torch counts it."""
    return 0 if torch.compiler.is_compiling() or x.is_inference() else x._version


def _is_large(lse: Tensor) -> bool:
    # A tensor without numbers has none that are large.
    return lse.device.type != "meta" and is_large(xp, lse)


def _index(part: Any) -> Any:
    """A tensor in an index as NumPy's array or, of one number, as that number."""
    if not isinstance(part, Tensor):
        return part
    read = host("an index", part)
    return read.item() if part.ndim == 0 and part.dtype != torch.bool else read
