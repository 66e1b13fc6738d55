"""What the modules have in common: linear maps, dropout, fresh parameters, and the names that load."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from functools import partial, reduce
from math import sqrt
from typing import Any

import torch
from torch import Tensor, nn
from torch.nn import functional

from overt import layers
from overt.attended import Attended
from overt.dropout import dropout as attention_dropout
from overt.errors import ArgumentError, ShapeError
from overt.torch.attention import attention

Device = torch.device | str | int | None

# What follows the name of a map or norm: in ``overt.layers``, and in its module.
_NAMES = {"_weight": ".weight", "_bias": ".bias", ".scale": ".weight", ".offset": ".bias"}


class Linear(nn.Linear):
    """x weightᵀ + bias, drawn as ``overt.models`` draws: Glorot & Bengio 2010, equation 16."""

    def reset_parameters(self) -> None:
        nn.init.xavier_uniform_(self.weight)
        if self.bias is not None:
            nn.init.zeros_(self.bias)

    def forward(self, x: Tensor) -> Tensor:
        if x.shape[-1] != self.in_features:
            shape = self.out_features, self.in_features
            raise ShapeError(f"x has width {x.shape[-1]} but the weight {shape} maps {self.in_features}")
        return super().forward(x)


class Layer(nn.Module):
    """Parameters of given shapes beside those of its submodules, and dropout."""

    def __init__(
        self,
        dropout: float = 0.0,
        shapes: Mapping[str, tuple[int, ...]] | None = None,
        *,
        device: Device = None,
        dtype: torch.dtype | None = None,
    ) -> None:
        if not 0 <= dropout < 1:
            raise ArgumentError(f"dropout must be a rate with 0 ≤ rate < 1, not {dropout!r}")
        super().__init__()
        self.dropout = dropout
        self._own = tuple(shapes or ())
        for name, shape in (shapes or {}).items():
            self.register_parameter(name, nn.Parameter(torch.empty(shape, device=device, dtype=dtype)))
        self.reset_parameters()

    @property
    def tensors(self) -> dict[str, Tensor]:
        """The parameters that are its own and not a submodule's, by name and through what parametrises them."""
        return {name: getattr(self, name) for name in self._own}

    def reset_parameters(self) -> None:
        """Draw every parameter afresh, by the rules of ``overt.models``."""
        for name in self._own:
            parameter = self._parameters.get(name)
            if parameter is None:
                continue
            if name.endswith("_embedding"):
                nn.init.normal_(parameter, std=1 / sqrt(parameter.shape[-1]))
            elif name.endswith("_weight"):
                bound = sqrt(6 / sum(parameter.shape))
                nn.init.uniform_(parameter, -bound, bound)
            else:
                nn.init.zeros_(parameter)
        _reset(self)

    def drop(self, x: Tensor) -> Tensor:
        """Dropout while training."""
        return functional.dropout(x, self.dropout, self.training)

    def operator(self, x: Tensor, found: list[Attended] | None) -> Callable[..., Tensor]:
        """``overt.torch.attention`` beside x, with dropout of weights while training; a list gets its ``Attended``."""
        chosen = attention if found is None else layers.watched(found)
        if not (self.training and self.dropout):
            return chosen
        # A seed that stays a tensor is drawn anew by each call of a compiled module, and waits for no device.
        return partial(chosen, dropout=attention_dropout(self.dropout, torch.randint(2**62, (), device=x.device)))

    def attend(
        self, function: Callable[..., Tensor], x: Tensor, *inputs: Any, attended: bool, **options: Any
    ) -> Tensor | tuple[Tensor, Attended]:
        """What a function of ``overt.layers`` that attends makes of x, and its ``Attended`` if that is asked for."""
        found: list[Attended] = []
        y = function(x, *inputs, **options, attention=self.operator(x, found if attended else None))
        return (y, found[0]) if attended else y

    def extra_repr(self) -> str:
        own = [f"{name}={tuple(x.shape)}" for name, x in self.tensors.items()]
        return ", ".join([*own, *([f"dropout={self.dropout}"] if self.dropout else [])])

    def _load_from_state_dict(self, state_dict: dict[str, Any], prefix: str, *options: Any) -> None:
        for name, _ in self.named_modules(remove_duplicate=False):
            for theirs, ours in _NAMES.items():
                if (given := f"{prefix}{name}{theirs}") in state_dict:
                    state_dict[f"{prefix}{name}{ours}"] = state_dict.pop(given)
        super()._load_from_state_dict(state_dict, prefix, *options)


def _reset(module: nn.Module) -> None:
    for child in module.children():
        getattr(child, "reset_parameters", partial(_reset, child))()


def named(module: nn.Module, name: str) -> Tensor:
    """A parameter by its name in ``overt.layers``."""
    try:
        return _at(module, name)
    except AttributeError:
        theirs = next(end for end in _NAMES if name.endswith(end))
        return _at(module, name.removesuffix(theirs) + _NAMES[theirs])


def _at(module: nn.Module, path: str) -> Tensor:
    return reduce(getattr, path.split("."), module)  # type: ignore[return-value]  # ends at a tensor


def run(module: nn.Module, *inputs: Tensor, attended: bool, **options: Any) -> tuple[Tensor, list[Attended]]:
    """The output of a module with attention, and what it attended to if that is asked for."""
    if not attended:
        return module(*inputs, **options), []
    y, seen = module(*inputs, attended=True, **options)
    return y, seen if isinstance(seen, list) else [seen]
