"""Arrays of the candidate's library, made from NumPy's and turned back into them."""

from __future__ import annotations

import dataclasses
import itertools
import random
import sys
import tracemalloc
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import AbstractContextManager, contextmanager, nullcontext, suppress
from functools import cache, partial
from importlib import import_module
from types import SimpleNamespace
from typing import Any, ClassVar

import numpy as np

from overt.check.process import wire


def leaves(result: Any, path: str = "") -> Iterator[tuple[str, Any]]:
    """Everything in a result of tuples, lists, dicts and dataclasses, with where it lies."""
    if isinstance(result, dict):
        for name, part in result.items():
            yield from leaves(part, f"{path}.{name}")
    elif isinstance(result, list) and _numbers(result):
        yield path, np.array(result)
    elif isinstance(result, tuple | list):
        for number, part in enumerate(result):
            yield from leaves(part, f"{path}.{number}")
    elif dataclasses.is_dataclass(result) and not isinstance(result, type):
        for field in dataclasses.fields(result):
            yield from leaves(getattr(result, field.name), f"{path}.{field.name}")
    elif result is not None:
        yield path, result


def alike(one: Any, two: Any, depth: int = 8) -> bool:
    """Whether a thing and its copy hold the same, as far as that can be seen."""
    if one is two or type(one) is not type(two) or not depth:
        return one is two
    if isinstance(one, str | int | float | np.generic):
        return bool(one == two)
    if isinstance(one, tuple | list):
        return len(one) == len(two) and all(alike(x, y, depth - 1) for x, y in zip(one, two, strict=True))
    if isinstance(one, dict):
        return one.keys() == two.keys() and all(alike(x, two[name], depth - 1) for name, x in one.items())
    if hasattr(one, "__array__"):
        return np.array_equal(np.asarray(one), np.asarray(two))
    return hasattr(one, "__dict__") and alike(vars(one), vars(two), depth - 1)


def copied(x: Any, others: Sequence[Any]) -> Any:
    """An array, or its copy where that alone lies among others, as where it went through what makes something of it."""
    if any(x is other for other in others) or "jax" not in type(x).__module__:
        return x
    return next((other for other in others if other.shape == x.shape and alike(x, other)), x)


@contextmanager
def _patched(others: Mapping[Any, Mapping[str, Any]]) -> Iterator[None]:
    """Attributes of modules and classes are others for a while."""
    saved = {home: {name: getattr(home, name) for name in mine} for home, mine in others.items()}
    try:
        for home, mine in others.items():
            for name, other in mine.items():
                setattr(home, name, other)
        yield
    finally:
        for home, mine in saved.items():
            for name, own in mine.items():
                setattr(home, name, own)


def seed_torch(seed: int) -> None:
    """Make the random numbers of torch the same again: those of the processor, where candidates run.

    ``torch.manual_seed`` keeps, for each other device, who asked it, which takes a hundred times as long.
    """
    sys.modules["torch"].default_generator.manual_seed(seed)


def seed_all(seed: int = 0) -> None:
    """Make the random numbers of all libraries the same again."""
    random.seed(seed)
    np.random.seed(seed)  # noqa: NPY002
    if "torch" in sys.modules:
        seed_torch(seed)


def _draw(drawn: Callable[[], np.random.RandomState], name: str, *args: Any, **kwargs: Any) -> Any:
    """What a generator draws that is made when it is first asked."""
    return getattr(drawn(), name)(*args, **kwargs)


def _numbers(rows: list[Any]) -> bool:
    """Whether a list, or one of lists, holds nothing but numbers."""
    return bool(rows) and all(_numbers(x) if isinstance(x, list) else isinstance(x, float | np.floating) for x in rows)


class Backend:
    """NumPy, and what the other libraries do alike."""

    def __init__(self, dtype: str) -> None:
        self.dtype = dtype

    def give(self, array: np.ndarray, grad: bool = False) -> Any:
        """The array in the candidate's library; floats in the dtype asked for."""
        return array.astype(self.dtype) if array.dtype.kind == "f" else array.copy()

    def take(self, array: Any) -> np.ndarray:
        return np.asarray(array)

    def seen(self, leaf: Any) -> tuple[np.ndarray | None, str]:
        """A leaf as a float64 or integer array and the name of its dtype; None where it is no array."""
        if isinstance(leaf, float | np.number | np.ndarray) or hasattr(leaf, "__array__"):
            array = np.asarray(leaf)
            if array.dtype.kind == "c":
                # Real and imaginary parts beside each other.
                array = np.stack([array.real, array.imag], -1)
            if array.dtype.kind in "biuf":
                return array.astype(np.float64) if array.dtype.kind == "f" else array, str(array.dtype)
        with suppress(ValueError, TypeError):
            if isinstance(leaf, int) and not isinstance(leaf, bool):
                return np.asarray(leaf), "int"
        return None, type(leaf).__name__

    def run(
        self, function: Callable[..., Any], args: list[Any], kwargs: dict[str, Any], passing: dict[int, str], try_: bool
    ) -> Any:
        """What a function returns; passing: names of arrays by identity; try_: None will do where it would run."""
        return function(*args, **kwargs)

    def seed(self, seed: int) -> None:
        """Make the library's random numbers the same again."""

    def still(self) -> AbstractContextManager[None]:
        """A context in which dropout drops nothing, where that can be."""
        return nullcontext()

    def normal(self) -> AbstractContextManager[None]:
        """A context in which normal numbers are the same for all seeds: what begins as they are is no dropout."""
        drawn = cache(lambda: np.random.RandomState(0))
        names = ("normal", "randn", "standard_normal")
        return _patched({np.random: {name: partial(_draw, drawn, name) for name in names}})

    def typed(self) -> AbstractContextManager[None]:
        """A context in which arrays that the candidate makes are float64 by default."""
        return nullcontext()

    def attached(self) -> AbstractContextManager[None]:
        """A context in which ``detach`` takes nothing out of the gradients, where there are any."""
        return nullcontext()

    @contextmanager
    def weighed(self, told: list[int]) -> Iterator[None]:
        """A context that adds the bytes that were allocated in it at most, where they can be seen."""
        # In this process somebody else may be tracing.
        traced = tracemalloc.is_tracing()
        if not traced:
            tracemalloc.start()
        tracemalloc.reset_peak()
        before = tracemalloc.get_traced_memory()[0]
        try:
            yield
        finally:
            told.append(tracemalloc.get_traced_memory()[1] - before)
            if not traced:
                tracemalloc.stop()

    def pull(self, result: Any, inputs: dict[str, Any], out: wire.Arrays, number: int) -> dict[str, Any] | None:
        """Gradients of Σ output · ramp for the inputs, None where the library has none."""
        return None


class _Torch(Backend):
    def __init__(self, dtype: str) -> None:
        super().__init__(dtype)
        self.torch: Any = sys.modules["torch"]

    def give(self, array: np.ndarray, grad: bool = False) -> Any:
        tensor = self.torch.from_numpy(np.array(array, order="C"))
        if array.dtype.kind == "f":
            tensor = tensor.to(getattr(self.torch, self.dtype))
            if grad:
                tensor.requires_grad_()
        return tensor

    def take(self, array: Any) -> np.ndarray:
        return self._float(array.detach()).numpy()

    def _float(self, tensor: Any) -> Any:
        return tensor.double() if tensor.is_floating_point() else tensor

    def seen(self, leaf: Any) -> tuple[np.ndarray | None, str]:
        if isinstance(leaf, self.torch.Tensor) and leaf.is_complex():
            leaf = self.torch.view_as_real(leaf.resolve_conj())
        if isinstance(leaf, self.torch.Tensor):
            return np.array(self._float(leaf.detach()).cpu().numpy()), str(leaf.dtype).removeprefix("torch.")
        return super().seen(leaf)

    def seed(self, seed: int) -> None:
        seed_torch(seed)

    @contextmanager
    def typed(self) -> Iterator[None]:
        """A context in which tensors that the candidate makes are float64 by default."""
        before = self.torch.get_default_dtype()
        if self.dtype == "float64":
            self.torch.set_default_dtype(self.torch.float64)
        try:
            yield
        finally:
            self.torch.set_default_dtype(before)

    def attached(self) -> AbstractContextManager[None]:
        """A context in which ``detach`` takes nothing out of the gradients."""
        return _patched({self.torch.Tensor: {"detach": lambda x: x}})

    def still(self) -> AbstractContextManager[None]:
        functional, module = self.torch.nn.functional, self.torch.nn.Dropout
        fused = functional.scaled_dot_product_attention

        def attention(
            query: Any, key: Any, value: Any, attn_mask: Any = None, dropout_p: float = 0.0, *args: Any, **kwargs: Any
        ) -> Any:
            return fused(query, key, value, attn_mask, 0.0, *args, **kwargs)

        def same(x: Any, *args: Any, **kwargs: Any) -> Any:
            return x

        return _patched(
            {
                functional: {"dropout": same, "scaled_dot_product_attention": attention},
                self.torch: {"dropout": same},
                module: {"forward": lambda self, x: x},
            }
        )

    @contextmanager
    def normal(self) -> Iterator[None]:
        torch, count = self.torch, itertools.count()
        fill = torch.Tensor.normal_

        def drawing(function: Callable[..., Any]) -> Callable[..., Any]:
            def drawn(*args: Any, **kwargs: Any) -> Any:
                with torch.random.fork_rng(devices=[]), torch.no_grad():
                    seed_torch(next(count))
                    return function(*args, **kwargs)

            return drawn

        def filled(function: Callable[..., Any]) -> Callable[..., Any]:
            def made(*args: Any, **kwargs: Any) -> Any:
                return torch.Tensor.normal_(function(*args, **kwargs))

            return made

        def normal_(x: Any, mean: float = 0, std: float = 1, *, generator: Any = None) -> Any:
            # The same in every width.
            return x.copy_(fill(torch.empty(x.shape, dtype=torch.float64), mean, std))

        with (
            super().normal(),
            _patched(
                {
                    torch.Tensor: {"normal_": drawing(normal_)},
                    torch: {"normal": drawing(torch.normal)}
                    | {n: filled(getattr(torch, n)) for n in ("randn", "randn_like")},
                }
            ),
        ):
            yield

    @contextmanager
    def weighed(self, told: list[int]) -> Iterator[None]:
        """The largest array that an operation makes; what a kernel needs inside is its own."""
        torch, largest = self.torch, [0]
        mode: Any = import_module("torch.utils._python_dispatch").TorchDispatchMode

        def places(values: Any) -> dict[int, int]:
            tensors = [leaf for _, leaf in leaves(values) if isinstance(leaf, torch.Tensor)]
            return {t.untyped_storage().data_ptr(): t.untyped_storage().nbytes() for t in tensors}

        class Scale(mode):
            @classmethod
            def _should_skip_dynamo(cls) -> bool:
                # Nothing is compiled here, and to leave the compiler out is to load all of it.
                return False

            def __torch_dispatch__(self, function: Any, types: Any, args: Any = (), kwargs: Any = None) -> Any:
                result = function(*args, **(kwargs or {}))
                given = places([args, kwargs or {}])
                largest.extend(n for place, n in places([result]).items() if place not in given)
                return result

        with Scale():
            yield
        told.append(max(largest))

    def pull(self, result: Any, inputs: dict[str, Any], out: wire.Arrays, number: int) -> dict[str, Any] | None:
        tensors = [
            leaf for _, leaf in leaves(result) if isinstance(leaf, self.torch.Tensor) and leaf.is_floating_point()
        ]
        if not tensors:
            return None
        found: dict[str, Any] = {}
        tensors = [tensor for tensor in tensors if tensor.requires_grad]
        if not tensors:
            return dict.fromkeys((name for name, x in inputs.items() if x.is_floating_point()))
        for tensor in tensors:
            ramp = self.torch.linspace(-1, 1, tensor.numel(), dtype=tensor.dtype).reshape(tensor.shape)
            (tensor * ramp).sum().backward(retain_graph=True)
        for name, x in inputs.items():
            if x.is_floating_point():
                found[name] = None
                if x.grad is not None:
                    found[name] = f"g{number}.{name}"
                    out[found[name]] = x.grad.double().numpy()
        return found


# Of so many calls what was traced is kept.
_TRACED = 32


class _Traced:
    """A function of the arrays in its arguments, all else as it is; gives the arrays in its result."""

    def __init__(
        self, function: Callable[..., Any], tree: Any, still: list[Any], names: dict[int, str], passing: dict[int, str]
    ) -> None:
        """names: those of arrays by their numbers; passing: the same by identity, of what stands for them too."""
        self.function, self.given, self.still = function, tree, still
        self.names, self.passing = names, passing
        # of its result
        self.tree: Any = None
        self.rest: list[Any] = []
        self.jaxpr: Any = None

    def __call__(self, arrays: list[Any]) -> list[Any]:
        jax, some = sys.modules["jax"], iter(arrays)
        self.passing |= {id(arrays[n]): name for n, name in self.names.items()}
        args, kwargs = jax.tree_util.tree_unflatten(self.given, [next(some) if x is None else x for x in self.still])
        found, self.tree = jax.tree_util.tree_flatten(self.function(*args, **kwargs))
        self.rest = [None if isinstance(x, jax.Array) else x for x in found]
        return [x for x in found if isinstance(x, jax.Array)]


def _known(x: Any) -> Any:
    """What two things have in common that are the same to a call."""
    parts = vars(x) if dataclasses.is_dataclass(x) or isinstance(x, SimpleNamespace) else {"": x}
    plain = all(isinstance(part, int | float | str | None) for part in parts.values())
    return (type(x), repr(x)) if plain else id(x)


class _Jax(Backend):
    traced: ClassVar[list[tuple[Any, _Traced]]] = []

    def give(self, array: np.ndarray, grad: bool = False) -> Any:
        return sys.modules["jax"].numpy.asarray(super().give(array))

    def run(
        self, function: Callable[..., Any], args: list[Any], kwargs: dict[str, Any], passing: dict[int, str], try_: bool
    ) -> Any:
        """Traced and then done in NumPy, since each operation would be compiled; as it is where numbers decide."""
        jax = sys.modules["jax"]
        flat, tree = jax.tree_util.tree_flatten((args, kwargs))
        places = [i for i, x in enumerate(flat) if isinstance(x, jax.Array)]
        arrays = [flat[i] for i in places]
        still = [None if isinstance(x, jax.Array) else x for x in flat]
        # What was called before, with other numbers, has been traced already.
        known = [_known(x) for x in still]
        like = function, tree, known, [(x.shape, x.dtype) for x in arrays]
        traced = next((one for other, one in _Jax.traced if other == like), None)
        try:
            if traced is None:
                traced = _Traced(
                    function,
                    tree,
                    still,
                    {n: passing[id(x)] for n, x in enumerate(arrays) if id(x) in passing},
                    passing,
                )
                traced.jaxpr = jax.make_jaxpr(traced)(arrays)
                _Jax.traced = [(like, traced), *_Jax.traced[:_TRACED]]
            if try_:
                return None
            made = iter(import_module("overt.recorder.traced").evaluate(traced.jaxpr, arrays))
        except (jax.errors.JAXTypeError, jax.errors.JAXIndexError):
            return function(*args, **kwargs)
        if any(isinstance(part, jax.core.Tracer) for x in traced.rest for part in getattr(x, "__dict__", {}).values()):
            # It makes objects that hold what was traced.
            return function(*args, **kwargs)
        return jax.tree_util.tree_unflatten(traced.tree, [next(made) if x is None else x for x in traced.rest])

    def seen(self, leaf: Any) -> tuple[np.ndarray | None, str]:
        return super().seen(np.asarray(leaf) if hasattr(leaf, "addressable_shards") else leaf)


class _Tensorflow(Backend):
    def give(self, array: np.ndarray, grad: bool = False) -> Any:
        return sys.modules["tensorflow"].constant(super().give(array))


class _Keras(Backend):
    def give(self, array: np.ndarray, grad: bool = False) -> Any:
        return sys.modules["keras"].ops.convert_to_tensor(super().give(array))

    def take(self, array: Any) -> np.ndarray:
        return np.asarray(sys.modules["keras"].ops.convert_to_numpy(array))

    def seen(self, leaf: Any) -> tuple[np.ndarray | None, str]:
        if hasattr(leaf, "shape") and not isinstance(leaf, np.ndarray):
            return super().seen(self.take(leaf))
        return super().seen(leaf)


def backends(name: str, dtype: str) -> Backend:
    """The library called numpy, torch, jax, tensorflow or keras; the candidate has imported it."""
    kinds = {"torch": _Torch, "jax": _Jax, "tensorflow": _Tensorflow, "keras": _Keras}
    return kinds.get(name, Backend)(dtype)
