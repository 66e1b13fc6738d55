"""Torch operations, followed from a softmax to the product that uses its weights.

What is fed in is what a ``TorchFunctionMode`` sees: a function, its arguments and its result.  Two kinds of value are
followed: scores, which come from a product of two activations, and weights, which come from a softmax.  A softmax of
scores is an attention, and what happens to its weights must be understood; any other softmax, such as that of a router,
is followed too, and nobody misses it.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import replace
from typing import Any

import torch
from torch import Tensor

from overt.torch.record.cells import Made, Origin, Product
from overt.torch.record.equations import equation, terms
from overt.torch.record.functions import (
    CASTS,
    CHANGES,
    ENDS,
    JOINS,
    LEAVES,
    LOGS,
    PLAIN,
    PRODUCTS,
    SHAPED,
    SHIFTS,
    SLIGHT,
    SOFTMAX,
    VIEWS,
    axis_of,
    name_of,
    parts,
    spells,
    tensors,
)
from overt.torch.record.mixing import ADDED, axes, mixed, totals, used, whole
from overt.torch.record.noted import Noted
from overt.torch.record.ordering import ordered_use, role_of
from overt.torch.record.origins import Origins, heeds, learned, maps
from overt.torch.record.sdpa import hidden
from overt.torch.record.softmaxes import Softmax, Use, Weights, onward
from overt.torch.record.undropped import DROPOUT, Undropped


class Follower(Noted):
    """What became of scores and weights; holds on to no tensor that its owner has let go."""

    def __init__(self, ran: Mapping[Any, int] | None = None) -> None:
        """ran: how often each place has run."""
        super().__init__()
        self._ran = {} if ran is None else ran
        self.origins = Origins()
        self._undropped = Undropped()
        # Sums over positions, one for each feature of a map: all of an attention, or the first half of a linear one.
        self._waiting: list[tuple[Use, Made, int]] = []
        self._softmaxes: list[Softmax] = []
        # Whether what is seen now runs where no ``forward`` does.
        self.beside = False
        # Places where something that was computed of scores, and by no softmax, took part in another product, and where
        # these scores came from.
        self.mixed: dict[Any, set[Any]] = {}
        # Places where numbers left torch, and by what.
        self.left: dict[Any, str] = {}

    def see(self, place: Any, func: Callable[..., Any], args: Any, kwargs: Any, result: Any) -> Use | None:
        """Take note of one operation; where weights of a softmax met values, say so."""
        name = name_of(func)
        if name in SOFTMAX:
            self._begin(place, args, kwargs, result)
            return None
        if name in PRODUCTS and not (name == "linear" and maps(place, args, kwargs)):
            return self._product(place, name, args, kwargs, result)
        if name in LEAVES:
            self._undropped.see(name, func, args, kwargs, result)
            self._leave(place, name, args[0])
            return None
        spelled = spells(name, args, kwargs)
        if (spelled or name in LOGS) and not any(map(self._entry, tensors(args))):
            self._spell(place, name, args, kwargs, result)
            return None
        if not (self._known or self._aside):
            return None
        if name not in ENDS:
            self._undropped.see(name, func, args, kwargs, result)
        if name == "__setitem__":
            if isinstance(args[2], Tensor) and self._entry(args[2]):
                # What becomes a part of something else is not that; scores in something make it scores.
                weights = self._weights(args[2])
                if weights is None or args[0].shape == args[2].shape:
                    self._note(args[0], weights, self._root(args[2]))
                else:
                    # Scores that weights are written into are written over.
                    both = [x for x in (args[2], args[0]) if self._weights(x) is not None]
                    self._pass_on(place, name, func, args, kwargs, args[0], both)
            return None
        # What takes a shape alone, and whether something is the case, is nothing that could mix.
        if not isinstance(result, Tensor) or name in SHAPED or not result.is_floating_point():
            # Pieces of weights may yet mix something, and those of scores are scores.
            pieces = [x for x in parts(result) if x.is_floating_point()] if not isinstance(result, Tensor) else []
            if pieces and (known := [x for x in tensors(args) if self._entry(x)]):
                for x in known:
                    self._lose(x, name)
                for x in pieces if name not in ENDS else ():
                    if self._weights(known[0]) is None:
                        self._note(x, None, self._root(known[0]))
                    else:
                        self._onward(place, name, x, known[:1])
            return None
        # Weights first: where they are chosen by a condition, that is what they go on in.
        given = tensors((*args, *kwargs.values()))
        sources = sorted((x for x in given if self._entry(x)), key=lambda x: self._weights(x) is None)
        if not sources:
            return None
        if spelled and self._weights(sources[0]) is None:
            # To add them up is not yet to mix by them.
            sums, root = name == "logsumexp", self._root(sources[0])
            softmax = Softmax(place, sums, spelled=not sums, lost=name, root=root, aside=sums)
            self._add(softmax)
            if not sums:
                self._note(result, Weights(softmax, result.detach()))
            return None
        if name in ENDS:
            self._lose(sources[0], name)
            if (weights := self._weights(sources[0])) is not None:
                # Heads that talk, and keys that are mapped to as many.
                alike = not weights.form and weights.softmax.normal is None and result.shape == sources[0].shape
                if sources[0].ndim > 3 or alike:
                    self._onward(place, name, result, sources)
            elif sources[0].ndim > 3 and name == "linear":
                # A linear map of scores makes scores, and nothing else with as many axes is mapped.
                self._note(result, None, self._root(sources[0]))
            return None
        self._pass_on(place, name, func, args, kwargs, result, sources)
        return None

    def script(self, place: Any, name: str, args: Any, kwargs: Any, result: Any, softens: bool) -> None:
        """Take note of code that shows nothing of its inside, but whether there is a softmax in it, and no product."""
        if softens and isinstance(result, Tensor):
            self._begin(place, args, kwargs, result)
            return
        if softens:
            self._add(Softmax(place, True, lost=name))
        sources = [x for x in tensors((*args, *kwargs.values())) if self._entry(x)]
        for x in sources:
            self._lose(x, name)
        roots = [self._root(x) for x in sources if self._weights(x) is None]
        for x in parts(result) if roots else ():
            self._note(x, None, roots[0])

    def lost(self, output: Any = None) -> Iterator[Softmax]:
        """Attentions whose weights met no values that could be recognised, since the last time.

        output: what a model gave; weights that are a part of it may be attention, or how well a text fits an image.
        """
        for x in parts(output) if self._known or self._aside else ():
            if (weights := self._weights(x)) is not None and not weights.softmax.lost:
                weights.softmax.given = True
        found, self._softmaxes = self._softmaxes, []
        self._known.clear()
        # Somebody may keep weights for another run.
        for key, (_, weights, _) in list(self._aside.items()):
            if weights is None or not weights.again:
                del self._aside[key]
            elif weights.softmax not in self._softmaxes:
                self._softmaxes.append(weights.softmax)
        # Scores of which the softmax is followed may be looked at as well.
        followed = {id(x.root) for x in found if x.followed and x.root is not None}
        return (
            x
            for x in found
            if x.doubtful or x.left or (x.scored and not x.followed and not (x.aside and id(x.root) in followed))
        )

    def _begin(self, place: Any, args: Any, kwargs: Any, result: Any) -> None:
        if not isinstance(result, Tensor) or not result.ndim:
            return
        known = [x for x in tensors((*args, *kwargs.values())) if self._entry(x)]
        # What became of weights before is no scores.
        sources = [x for x in known if (w := self._weights(x)) is None or not (w.form or w.again)]
        root, source = self._root(sources[0]) if sources else None, self._source(args, kwargs, result)
        # A vector that is no scores chooses between things, unless it has places.
        if result.ndim < 2 and not sources and (source is None or self.origins.mapped(*source) is not False):
            return
        softmax = Softmax(place, bool(sources), result.numel(), root=root, source=source)
        self._add(softmax)
        self._note(result, Weights(softmax, result.detach()))

    def _spell(self, place: Any, name: str, args: Any, kwargs: Any, result: Any) -> None:
        """What ``exp`` gives of no scores may be a softmax, if it is divided by a sum of itself."""
        if not isinstance(result, Tensor) or result.numel() < 2 or not result.is_floating_point():
            return
        logs = name in LOGS
        softmax = Softmax(place, False, result.numel(), normal=logs, lost=name)
        if name == "log_softmax":
            softmax.source = self._source(args, kwargs, result)
        self._add(softmax)
        self._note(result, Weights(softmax, result.detach(), form="changed" if logs else ""))

    def _source(self, args: Any, kwargs: Any, result: Tensor) -> tuple[Origin, int] | None:
        """Where the input of a softmax comes from, and along which axis it runs."""
        given = next(tensors((*args, *kwargs.values())), None)
        origin = None if given is None else self.origins.of(given)
        axis = kwargs.get("dim", args[1] if len(args) > 1 else None)
        return None if origin is None else (origin, (axis if type(axis) is int else -1) % result.ndim)

    def _open(self, weights: Weights) -> bool:
        """Whether what becomes of weights is to be known, though no error names it: they may weigh a sum yet."""
        softmax = weights.softmax
        if weights.again or softmax.scored:
            return weights.again
        if softmax.chooses is None:
            softmax.chooses = softmax.source is not None and self.origins.mapped(*softmax.source) is True
        return not softmax.chooses

    def _turn(self, place: Any) -> tuple[Any, int]:
        """A place, and which of its runs this is."""
        return place, self._ran.get(place, 0)

    def _onward(self, place: Any, name: str, result: Tensor, sources: Sequence[Tensor]) -> None:
        """Note what weights are after a function that is not followed."""
        found = [x for x in map(self._weights, sources) if x is not None]
        if "add" in name:
            found.sort(key=lambda x: x.form != "total")
        if found[0].softmax.scored and not found[0].again:
            return
        if form := onward(place, name, found, sources[0], result, self._open(found[0])):
            self._note(result, replace(found[0], values=result.detach(), form=form))

    def _leave(self, place: Any, name: str, x: Any) -> None:
        if not isinstance(x, Tensor) or x.ndim < 2 or not x.is_floating_point():
            return
        if not self._entry(x):
            self.left[place] = name
        elif (weights := self._weights(x)) is None:
            self._add(Softmax(place, True, lost=name, root=self._root(x), aside=True))
        else:
            self._lose(x, name)
            self._open(weights)

    def _pass_on(
        self, place: Any, name: str, func: Any, args: Any, kwargs: Any, result: Tensor, sources: list[Tensor]
    ) -> None:
        if name == "copy_":
            # What is written over is gone.
            sources = [x for x in sources if x is not result] or sources
        source = sources[0]
        weights = self._weights(source)
        if weights is None:
            self._note(result, None, self._root(source))
            return
        if (weights.form or len(sources) > 1) and name in CHANGES and len(list(tensors(args))) > 1:
            for x in sources:
                if (total := self._weights(x)) is not None and total.form == "total":
                    total.softmax.normal = True
        if name == "normalize" and weights.softmax.normal is False:
            weights.softmax.normal = True
        # Of what only lies elsewhere the numbers are the result's; a cast may have rounded them, and dropout left some.
        same = result.dtype == weights.values.dtype and not weights.dropped
        if weights.form:
            self._onward(place, name, result, sources)
        elif name in DROPOUT:
            self._drop(name, args, kwargs, result, source, weights)
        elif name in CASTS or (name == "copy_" and result.shape == source.shape):
            self._go_on(name, result, source, weights, result.detach() if same else weights.values)
            if name == "copy_" and (base := result._base) is not None:
                # What a part is written to has it too.
                both = [x for x in (source, base) if self._entry(x)]
                self._pass_on(place, "__setitem__", func, args, kwargs, base, both)
        elif args and args[0] is source and (name in VIEWS or self._chooses(func, args, kwargs, source, weights)):
            try:
                values = result.detach() if same or weights.dropped else func(weights.values, *args[1:], **kwargs)
                self._go_on(name, result, source, weights, values)
            except RuntimeError:
                # What is known of them has other strides, or another shape by now.
                self._lose(source, name)
        elif name in JOINS and (joined := self._joined(place, name, sources)) is not None:
            self._go_on(name, result, source, joined, result.detach())
        elif result.shape == source.shape and (
            name in CHANGES
            or (name in SHIFTS and weights.softmax.scored and isinstance(args[1], float) and abs(args[1]) < SLIGHT)
        ):
            joined = self._joined(place, name, sources) if len(sources) > 1 else None
            self._go_on(name, result, source, joined or weights, result.detach())
        else:
            self._onward(place, name, result, sources)
            for x in sources:
                self._lose(x, name)

    def _chooses(self, func: Callable[..., Any], args: Any, kwargs: Any, x: Tensor, weights: Weights) -> bool:
        """Whether a function chooses cells of weights along another axis than that of the keys."""
        axis = axis_of(func, args, kwargs) if heeds[func] == "move" else None
        if type(axis) is not int:
            return False
        return self.origins.same(weights.softmax.source, x, axis % x.ndim) is False

    def _joined(self, place: Any, name: str, sources: Sequence[Tensor]) -> Weights | None:
        """Weights that are put together of those of one or several softmaxes; None where some are none."""
        found = [x for x in map(self._weights, sources) if x is not None and not (x.form or x.again)]
        several = list({id(y): y for x in found for y in x.softmax.of or (x.softmax,)}.values())
        if len(found) < len(sources) or any(x.spelled or x.normal is not None for x in several):
            return None
        first, dropped = found[0].softmax, any(x.dropped for x in found)
        if len(several) > 1:
            size = sum(x.size for x in several) if name in JOINS else first.size
            scored = any(x.scored for x in several)
            first = Softmax(place, scored, size, root=first.root, aside=True, source=first.source, of=tuple(several))
            self._add(first)
        return replace(found[0], softmax=first, dropped=dropped)

    def _go_on(self, name: str, result: Tensor, source: Tensor, weights: Weights, values: Tensor) -> None:
        """Weights that are in another tensor now; after dropout, what they would be without it."""
        found = self._undropped.of(result) if weights.dropped else values
        if found is None:
            self._lose(source, name)
        else:
            self._note(result, replace(weights, values=found))

    def _drop(self, name: str, args: Any, kwargs: Any, result: Tensor, source: Tensor, weights: Weights) -> None:
        training = kwargs.get("training", kwargs.get("train", args[2] if len(args) > 2 else True))
        if not (training and kwargs.get("p", args[1] if len(args) > 1 else 0.5)):
            self._note(result, weights)
        elif result is source:
            # What was dropped is gone.
            self._known.pop(id(source), None)
            self._aside.pop(id(source), None)
            weights.softmax.lost = weights.softmax.lost or f"{name} in place"
        else:
            if not weights.dropped:
                self._undropped.begin(result, _current(source, weights))
            self._go_on(name, result, source, replace(weights, dropped=True), result)

    def _product(self, place: Any, name: str, args: Any, kwargs: Any, result: Any) -> Use | None:
        if not isinstance(result, Tensor):
            return None
        operands = list(tensors((*args, *(x for key, x in kwargs.items() if key != "out"))))
        factors = operands[-2:]
        if len(factors) < 2:
            # Of one tensor axes are moved, or summed over.
            if factors and self._entry(factors[0]):
                kind = name if result.numel() == factors[0].numel() else "sum"
                self._pass_on(place, kind, torch.einsum, args, kwargs, result, factors)
            return None
        written = equation(name, args, kwargs, *factors)
        for i, factor in enumerate(factors):
            weights = self._weights(factor)
            if weights is None or (not weights.form and self._turn(place) in weights.softmax.users * weights.again):
                continue
            found = None
            if weights.form or weights.softmax.normal is not None:
                letters = terms(name, written, factors[0], factors[1], result)
                sums = weights.softmax.normal is False and totals(letters, factors[1 - i], 1 - i)
                if sums != "all":
                    self._meet(place, name, factor, operands, result)
                if sums:
                    self._note(result, replace(weights, values=result.detach(), form="total"))
                    return None
                continue
            if weights.softmax.spelled:
                weights.softmax.scored = True
                continue
            values = self._undropped.of(factor) if weights.dropped else _current(factor, weights)
            if values is not None and values.layout is not torch.strided:
                values = values.to_dense()
            # Of more than two factors nobody knows the values; what is added comes first.
            if (len(operands) == 2 or name in ADDED) and values is not None and hidden((result,)) is None:
                role = role_of(self.origins, factor, factors[1 - i])
                found = used(name, written, values, factors[1 - i], mixed(name, factors, result), i, role)
                # Heads that talk are mixed by what all samples share too.
                own, shared = learned(factors[1 - i]), factors[1 - i].ndim < factor.ndim
                if found is not None and (own or shared) and not whole(found[0]):
                    shapes = [tuple(x.shape) for x in (factor, factors[1 - i], result)]
                    sorted_axes = axes(name, written, shapes, i, role)
                    axis = None if sorted_axes is None else sorted_axes[0][0][-1]
                    runs = self.origins.same(weights.softmax.source, factor, axis)
                    found = None if runs is False or (own and not runs) else found
            # Scores that weights were written into, and that nothing wrote over, are none.
            if weights.values.numel() > weights.softmax.size and bool((weights.values < 0).any()):
                found = None
            # Weights of weights mix no values: an inverse is computed so.  What ``exp`` gave may be values.
            other = self._weights(factors[1 - i])
            itself = other is not None and other.softmax.normal is not False
            # One piece may be all but a sink; a second one shows that there are several.
            piece = weights.values.numel() < weights.softmax.size and not weights.again
            torn = itself or (bool(weights.softmax.users) and piece)
            if found is None or torn:
                if not weights.softmax.scored or weights.again:
                    self._meet(place, name, factor, operands, result)
                    continue
                weights.softmax.torn |= torn
                weights.softmax.infinite |= not (weights.values.is_meta or bool(weights.values.isfinite().all()))
                self._lose(factor, name)
                continue
            self._note(factor, replace(weights, values=factor.detach(), again=True))
            for one in (weights.softmax, *weights.softmax.of):
                one.users += (self._turn(place),)
            weights.softmax.piece |= piece
            if learned(factors[1 - i]) and result.shape == factor.shape and factor.ndim > 3:
                # What maps keys to as many may make other weights.
                self._note(result, replace(weights, values=result.detach(), form="mapped", again=True))
            return self._used(place, name, written, factors, i, weights, found, result)
        for x in operands[:-2]:
            self._lose(x, name)
            if self._weights(x) is not None:
                self._meet(place, name, x, operands, result)
        # What is no parameter is an activation.
        free = [x for x in (factors if name in ADDED else operands) if not learned(x)]
        if len(free) > 1:
            factors = free[-2:]
            for x in factors:
                if self._entry(x) and (root := self._root(x)) is not None:
                    self.mixed.setdefault(place, set()).add(root.place)
            product = self._multiplied(place, name, written, factors, result)
            for i, x in enumerate(factors):
                self._linear(place, x, product.summed(i))
            self._note(result, None, product)
        elif free and self._entry(free[0]) and self._weights(free[0]) is None and result.ndim == free[0].ndim > 3:
            # Heads that talk.
            self._note(result, None, self._root(free[0]))
        return None

    def _meet(self, place: Any, name: str, x: Tensor, operands: Sequence[Tensor], result: Tensor) -> None:
        """Weights that a product does not tell: whether it mixes values by them, or heads of them."""
        weights, others = self._weights(x), [y for y in operands if y is not x]
        if weights is None or (weights.softmax.scored and not weights.again) or not self._open(weights):
            return
        if weights.form == "total":
            weights.softmax.normal = True
        elif any(self._weights(y) is not None for y in others) or (
            result.shape == x.shape and x.ndim > 3 and any(map(learned, others))
        ):
            self._lose(x, name)
            self._onward(place, name, result, [x])
        elif weights.form == "mapped" or (
            weights.form != "spread" and self._turn(place) not in weights.softmax.users * weights.again
        ):
            weights.softmax.summed = weights.softmax.summed or place

    def _multiplied(
        self, place: Any, name: str, written: str | None, factors: Sequence[Tensor], result: Tensor
    ) -> Product:
        product = Product(
            place, tuple(map(self.origins.of, factors)), terms(name, written, factors[0], factors[1], result)
        )
        self.origins.made(result, product)
        return product

    def _used(
        self,
        place: Any,
        name: str,
        written: str | None,
        factors: Sequence[Tensor],
        i: int,
        weights: Weights,
        found: tuple[Tensor, Tensor, Tensor],
        result: Tensor,
    ) -> Use | None:
        """What the i-th factor of a product mixed, by which weights."""
        factor, values = factors[i], factors[1 - i]
        shapes, role = [tuple(x.shape) for x in (factor, values, result)], role_of(self.origins, factor, values)
        sorted_axes = axes(name, written, shapes, i, role)
        use = Use(place, weights.softmax, *found, weights.dropped)
        if sorted_axes is not None:
            use = ordered_use(self.origins, use, factor, values, sorted_axes)
        if weights.softmax.scored or sorted_axes is None:
            return use
        # A softmax over features that meets what keys and values made is none over keys.
        (own, _), (other, _) = sorted_axes
        origin = self.origins.of(factor)
        if self.origins.features(origin, own[-1]) and self._linear(place, values, other[-2]):
            return None
        self._multiplied(place, name, written, factors, result)
        made = self.origins.of(result)
        if not self.beside and isinstance(made, Made) and self.origins.features(origin, own[-2]):
            self._waiting.append((use, made, i))
            return None
        return use

    def _linear(self, place: Any, x: Tensor, axis: int | None) -> bool:
        """Whether an axis that a product sums over holds the features of keys that have met their values."""
        found = self.origins.halves(self.origins.of(x), axis)
        if found is None:
            return False
        (made, product), places = found
        waits = [x for x in self._waiting if x[1] is made]
        if any(x[2] not in places for x in waits):
            return False
        self._waiting = [x for x in self._waiting if x not in waits]
        self.mixed.setdefault(place, set()).add(product.place)
        return True

    def waited(self) -> list[Use]:
        """Uses of weights that came before, of which it was open whether they are halves of something else."""
        found = [use for use, *_ in self._waiting]
        self._waiting.clear()
        return found

    def _add(self, softmax: Softmax) -> None:
        softmax.beside = self.beside
        self._softmaxes.append(softmax)

    def _lose(self, x: Tensor, name: str) -> None:
        weights = self._weights(x)
        if weights is not None:
            softmax = weights.softmax
            if not weights.again and softmax.summed is None:
                softmax.lost = softmax.lost or name
            # A variance is no weight, and where else it goes nobody knows.
            softmax.scored |= softmax.spelled and name not in PLAIN


def _current(x: Tensor, weights: Weights) -> Tensor:
    """The weights as they are multiplied: a cast may have rounded what is known, or a change in place come after it."""
    known = weights.values
    if known.dtype != x.dtype and torch.equal(known.to(x.dtype), x):
        return known
    return x.detach()
