"""The time in which a model is recorded: what is intercepted, checked and kept."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from contextlib import ExitStack
from dataclasses import replace
from typing import Any

import torch
from torch import nn

from overt.errors import RecordingError
from overt.grid import numbered
from overt.torch.record import checking, closed, interface, sdpa, table
from overt.torch.record.call import Call, called
from overt.torch.record.chain import Chain, Place
from overt.torch.record.following import Follower
from overt.torch.record.functions import LEAVES, SPELLED, name_of, operator, parts, softens
from overt.torch.record.keeping import Keeper, Link, statistics
from overt.torch.record.kernel import SDPA, SILENT, Tap
from overt.torch.record.marks import marks
from overt.torch.record.places import Layers, chooser, entry, within
from overt.torch.record.relations import relations
from overt.torch.record.replacing import replaced
from overt.torch.record.softmaxes import Use, weighs
from overt.torch.record.watch import DESCRIBED, Mode, Pass, Watch, backward

# Modules that hold layers, one after another.
_LISTS = nn.ModuleList, nn.Sequential
_DOUBTFUL = "a softmax of no product weighs"

_NOTHING = Keeper("statistics", 0, None, None)


class Session:
    """Fills ``chains`` by the names of the modules; ``lost`` says what could not be followed, ``seen`` who attended.

    unseen: where something ran of which nobody knows whether it attends, and what.
    """

    def __init__(self, model: nn.Module, layers: Layers, keeper: Keeper, compute: str, check: bool) -> None:
        self.chains: dict[str, list[Chain]] = {}
        self.lost: dict[str, str] = {}
        self.unseen: dict[str, str] = {}
        self.seen: set[str] = set()
        # Attentions that had no queries or no keys.
        self._empty: set[str] = set()
        self._guides: dict[str, list[Chain]] = {}
        # How the attentions to the text itself continue in a pass, by its number; None where they contradict.
        self._told: tuple[int, Place | None] = -1, None
        self._keeper, self._replace, self._check = keeper, compute == "overt", check
        self._chosen = chooser(layers)
        self._watch = Watch(model)
        self._follower = Follower(self._watch.ran)
        self._context = ExitStack()
        self._tap = Tap()
        # Whether attention that runs now is one that an interface has described.
        self._taps = False
        self._mode: Mode | None = None
        self._inside = False

    def start(self) -> None:
        """Begin to see."""
        self._watch.start(self._pass_ended)
        self._context.callback(self._watch.stop)
        interface.listen(self)
        self._context.callback(interface.leave, self)
        closed.listen(self)
        self._context.callback(closed.leave, self)
        # What was compiled shows nothing of its inside.
        self._context.enter_context(torch.compiler.set_stance("force_eager"))
        self._mode = self._context.enter_context(Mode(self._follower, self._watch, self._see))

    def stop(self) -> None:
        """Leave everything as it was."""
        self._context.close()
        self._pass_ended()
        for name in self._watch.closed:
            self._lose(name, "it is TorchScript, which shows nothing of its inside")
        for module, by in self._follower.left.items():
            self._miss(self._watch.names[module], f"numbers of it leave torch by {by}")
        for name in self._mixers:
            # What attends as well is no layer without attention.
            if any(within(x, name) and x != name for x in self.seen) and not any(within(name, x) for x in self.seen):
                self._miss(name, "beside its attentions it mixes by something else than a softmax")
        known = {*self.seen, *self.lost, *self.unseen, *self._mixers}
        for name in (called := self._watch.called_attention):
            if name in known or any(within(x, name) or within(name, x) for x in known) or self._projects(name, called):
                continue
            self._miss(name, "an attention by its name, in which none was seen")
        # No circle may hold on to what was recorded when nobody else does.
        self._mode = None

    def complain(self) -> None:
        """Raise for what a record must not keep silent about."""
        if self._watch.elsewhere:
            some = ", ".join(sorted(self._watch.elsewhere)[:3])
            raise RecordingError(
                f"the model ran in another thread ({some}), where nothing can be recorded: run it in the thread that "
                "entered overt.record"
            )
        if self.lost:
            lines = "; ".join(f"{name or '(model)'}: {why}" for name, why in self.lost.items())
            raise RecordingError(
                f"could not follow {len(self.lost)} of the model's attentions, and recorded {len(self.chains)}: "
                f"{lines}.  Choose others with layers= to do without these"
            )
        if not self.chains:
            why = (
                "no attention of the model ran that can be seen, by a kernel or by a softmax of scores: run it inside "
                "the with block, if it has any"
            )
            if self._empty:
                why = f"{', '.join(sorted(self._empty)[:6])} attended with no queries or no keys"
            elif self.seen:
                why = f"layers= chose none of {', '.join(sorted(self.seen)[:6])}"
            elif mixers := self._mixers:
                why += f"; without a softmax there mix {', '.join(mixers[:6])}"
            elif self.unseen:
                why += f"; not seen into: {table.reasons(self.unseen)}"
            raise RecordingError(f"nothing was recorded: {why}")

    def without(self) -> list[str]:
        """Layers that have no attention, beside others of the same list that have, and what mixes without a softmax."""
        found: list[str] = []
        lists = {name: x for x, name in self._watch.names.items() if isinstance(x, _LISTS)}
        for name, module in lists.items():
            # What lies inside a layer is a part of it.
            if any(name.startswith(f"{outer}.") for outer in lists):
                continue
            children = [f"{name}.{child}" if name else child for child, _ in module.named_children()]
            attend = [any(f"{x}.".startswith(f"{child}.") for x in self.seen) for child in children]
            # Of what was not seen into nobody knows.
            hides = [any(f"{x}.".startswith(f"{child}.") for x in self.unseen) for child in children]
            # So it knows of what did not run.
            idle = [self._watch.idle(x) for x in module.children()]
            if any(attend):
                found += [x for x, *some in zip(children, attend, hides, idle, strict=True) if not any(some)]
        mixers = [x for x in self._mixers if x not in self.unseen]
        return found + [x for x in mixers if not any(within(x, y) or within(y, x) for y in (*found, *self.seen))]

    @property
    def _mixers(self) -> list[str]:
        """Modules that mix by something else than a softmax.

        What came out of an earlier layer is a state, and no scores of the layer that multiplies it.
        """
        names = self._watch.names
        return [
            names[module]
            for module, places in self._follower.mixed.items()
            if any(not self._apart(names[module], names[place]) for place in places)
        ]

    def _apart(self, one: str, other: str) -> bool:
        """Whether two modules lie in different layers of one list."""
        lists = (name for x, name in self._watch.names.items() if isinstance(x, _LISTS))
        places = ([entry(name, outer) for name in (one, other)] for outer in lists)
        return any(all(two) and two[0] != two[1] for two in places)

    def _projects(self, name: str, called: Sequence[str]) -> bool:
        """Whether a module is part of an attention that was seen, with one map at most, beside what attends there."""
        outer = [x for x in called if x != name and within(name, x) and any(within(y, x) for y in self.seen)]
        module = next(x for x, known in self._watch.names.items() if known == name)
        return bool(outer) and sum(x.ndim > 1 for x in module.parameters()) <= 1

    # What the interceptions tell.

    @property
    def thread(self) -> int:
        """The thread that entered."""
        return self._watch.thread

    def owns(self, module: Any) -> bool:
        """Whether a module is one of the recorded model's, and runs forwards."""
        return module in self._watch.names and not backward()

    def interface(self, run: Callable[..., Any], implementation: str, module: Any, /, *args: Any, **kwargs: Any) -> Any:
        """Run an attention of Hugging Face transformers."""
        name = self._watch.names[module]
        inside, self._inside = self._inside, True
        try:
            with SILENT():
                call = self._described(implementation, module, args, kwargs, name)
                if call is not None and self._replace:
                    call.output = replaced(call, name)
                    self._checked(call, name)
                    return call.output.transpose(1, 2).contiguous(), None
            if call is None:
                return run(module, *args, **kwargs)
            DESCRIBED.add(type(module))
            self._taps = True
            result = run(module, *args, **kwargs)
            self._taps = False
            with SILENT():
                interface.complete(call, result, self._tap)
                self._checked(call, name, interface.returned(call, result))
            return result
        finally:
            self._inside, self._taps = inside, False

    def _described(self, implementation: str, module: Any, args: Any, kwargs: Any, name: str) -> Call | None:
        """What a call of the interface is to be taken as, None where it is not taken."""
        if why := sdpa.hidden((*args, *kwargs.values())):
            self._lose(name, why)
            return None
        if self._watch.current is None:
            self._lose(name, "it attends in a method that is not called as a module is")
            return None
        wanted = self._wanted(name)
        if not wanted and not self._guided:
            return None
        call = interface.describe(implementation, module, *args, **kwargs)
        if not wanted:
            self._guide(call, name)
            return None
        self._keeper.allow(call, name)
        return call

    @property
    def listens(self) -> bool:
        """Whether the model runs now, and nothing of the recording's own."""
        return self._watch.here and not self._inside

    def scripted(self, function: Any, args: Any, kwargs: Any, result: Any) -> None:
        """Take note of a call of TorchScript."""
        name, graph = self._watch.names[self._watch.stack[-1]], str(function.inlined_graph)
        own = isinstance(function, torch._C.ScriptMethod)
        if own and any(x._c == function.owner for x in self._watch.names if isinstance(x, torch.jit.ScriptModule)):
            # It has a name of its own, by which it is told if it attends.
            if closed.attends(graph) or closed.softmax_in(graph):
                return
        elif closed.attends(graph):
            self._lose(name, f"it calls TorchScript ({function.name}), which shows nothing of its inside")
            return
        softmax = closed.softmax_in(graph)
        self._follower.script(self._watch.stack[-1], function.name, args, kwargs, result, softmax)

    def silent(self, kernel: str) -> None:
        """Take note of a softmax, or a kernel of attention, where torch's functions are hidden."""
        name = self._watch.names[self._watch.stack[-1]]
        self._lose(name, f"it calls {kernel} under DisableTorchFunction, where nothing else is seen")

    def _beside(self, func: Any, args: Any, kwargs: Any) -> Any:
        """Run a function that no ``forward`` of the model calls; a method of its own may attend."""
        result, found = func(*args, **kwargs), self._watch.method()
        if found is None:
            return result
        module, method = found
        name, kernel = self._watch.names[module], operator(func) or name_of(func)
        if func in sdpa.FUSED or name_of(func) == SDPA.__name__ or sdpa.closed(kernel):
            self._lose(name, f"it attends in {method}(), which is not called as a module is")
            return result
        self._follower.beside = True
        used = self._follower.see(module, func, args, kwargs, result)
        self._follower.beside = False
        if used is not None and used.softmax.scored:
            self._lose(name, f"it attends in {method}(), which is not called as a module is")
        return result

    def _see(self, func: Any, args: Any, kwargs: Any) -> Any:
        if self._inside:
            attends = self._taps and (name_of(func) == SDPA.__name__ or func is sdpa.FLEX)
            return self._tap.run(func, args, kwargs) if attends else func(*args, **kwargs)
        if not self._watch.here:
            return self._beside(func, args, kwargs)
        if name_of(func) == SDPA.__name__:
            return self._sdpa(args, kwargs)
        if func is sdpa.MULTI_HEAD:
            return self._multi_head(args, kwargs)
        result = func(*args, **kwargs)
        module = self._watch.stack[-1]
        name = self._watch.names[module]
        if softens(func) and (why := sdpa.hidden((*args, *kwargs.values()))):
            self._lose(name, f"after its softmax, {why}")
            return result
        if func is sdpa.FLEX:
            if self._wanted(name):
                call = sdpa.flex(args, result)
                self._keeper.allow(call, name)
                self._take(call, name)
            return result
        if sdpa.closed(kernel := operator(func) or name_of(func)):
            self._lose(name, f"it calls {kernel}, which shows nothing of its inside")
            return result
        # What gives whole numbers, such as a mask, mixes nothing.
        foreign = "::" in kernel and not kernel.startswith(("aten::", "prim"))
        if foreign and any(x.is_floating_point() for x in parts(result)):
            own = "of functions" if kernel.startswith("higher_order::") else "of somebody's own"
            self._miss(name, f"it calls {kernel}, an operator {own}")
        used = self._follower.see(module, func, args, kwargs, result)
        if used is not None:
            for one in (*self._follower.waited(), used):
                self._attended(one)
        return result

    def _attended(self, used: Use) -> None:
        """Take note of weights that mixed values."""
        DESCRIBED.discard(type(used.place))
        name = self._watch.names[used.place]
        if self._wanted(name):
            call = sdpa.given(used)
            self._keeper.allow(call, name)
            self._take(call, name)
        elif self._guided:
            self._guide(sdpa.given(used), name)

    def _sdpa(self, args: Any, kwargs: Any) -> Any:
        DESCRIBED.discard(type(self._watch.stack[-1]))
        name = self._watch.names[self._watch.stack[-1]]
        wanted = self._wanted(name)
        if not wanted and not self._guided:
            return SDPA(*args, **kwargs)
        if why := sdpa.hidden((*args, *kwargs.values())):
            self._lose(name, why)
            return SDPA(*args, **kwargs)
        output, call = sdpa.sdpa(self._tap, self._follower.origins, *args, **kwargs)
        if not wanted:
            self._guide(call, name)
            return output
        self._keeper.allow(call, name)
        if self._replace:
            call.output = replaced(call, name)
            output = sdpa.placed(call, output)
        self._take(call, name)
        return output

    def _multi_head(self, args: Any, kwargs: Any) -> Any:
        assert self._mode is not None
        with self._mode:
            return sdpa.OPEN_MULTI_HEAD(*args, **kwargs)

    def _pass_ended(self, output: Any = None) -> None:
        names, passed = self._watch.names, self._watch.current
        steps = {name: chains[-1].links[-1].step for name, chains in self._guides.items()}
        if passed is not None and passed.number in steps.values():
            # Who was not asked in this pass does not know what was read in it.
            self._guides = {name: self._guides[name] for name, step in steps.items() if step == passed.number}
        if passed is not None:
            with SILENT():
                for used in self._follower.waited():
                    self._attended(used)
        for softmax in self._follower.lost(output):
            module = softmax.place
            if softmax.beside:
                self._miss(names[module], "a softmax of scores in a method that is not called as a module is")
                continue
            if softmax.doubtful:
                by, what = softmax.lost, "weights that were used before weigh" if softmax.users else _DOUBTFUL
                changed = "" if by is None or weighs(by) else f", with {by} on the way"
                self._miss(names[softmax.summed], f"{what} a sum{changed}")
                continue
            if softmax.left:
                self._miss(names[module], f"numbers of it leave torch by {softmax.lost}")
                continue
            if softmax.given and not (softmax.lost or softmax.torn):
                self._miss(names[module], "a softmax of scores is part of what the model gives, and mixed nothing seen")
                continue
            after = f"{softmax.lost} changes its weights" if softmax.lost else "its weights met no values"
            why = f"after its softmax, {after}, which is not understood"
            if softmax.spelled or softmax.lost in SPELLED:
                why = f"it spells out its softmax by {softmax.lost}, which is not followed"
            elif softmax.infinite:
                why = (
                    "the weights of its softmax are not all finite, as where all scores of a query are −∞: let each "
                    "query see a key, or give the weights nan_to_num()"
                )
            elif softmax.lost in LEAVES:
                why = f"what it makes of its scores leaves torch by {softmax.lost}, where nothing is seen"
            self._lose(names[module], why)

    # What becomes of a call.

    def _take(self, call: Call, name: str) -> None:
        """Check a call, and keep it at its place."""
        # What is computed here is none of the model's, as another recording round this one might think.
        with SILENT():
            self._checked(call, name)

    def _checked(self, call: Call, name: str, instead: Call | None = None) -> None:
        if self._check and not call.near:
            numbered(f"the queries of {name or 'the model'}", call.q)
        if 0 in call.sizes:
            self._empty.add(name)
            return
        checking.complete(call)
        if call.unknown and not self._check:
            raise RecordingError(
                f"{called(name)}: its attention got {', '.join(call.unknown)}, which may change the weights: record "
                "with check=True, which compares them with the model's own output"
            )
        found = None
        # Statistics have the weights that are compared; where there is another description, the choice comes first.
        if self._check and (instead is not None or self._keeper.keep != "statistics"):
            found = checking.deviation(call, checking.rows(call))
            if found is not None and not found[0] <= found[1] and instead is not None:
                call = instead
                checking.complete(call)
                found = checking.deviation(call, checking.rows(call))
            _compare(call, name, found)
        self._keep(call, name, found)

    def _keep(self, call: Call, module: str, found: tuple[float, float] | None) -> None:
        assert self._watch.current is not None
        name = self._watch.current.name(module)
        chains = self.chains.setdefault(name, [])
        link, chain = self._joined(chains, self._keeper, call, name)
        kept = None
        if self._keeper.keep == "statistics":
            compared = checking.rows(call) if self._check and found is None else range(0)
            kept, off = statistics(call, self._keeper.top, relations(link, chain, self._watch.current), compared)
            if compared:
                found = checking.deviation(call, compared, off)
                try:
                    _compare(call, module, found)
                except RecordingError:
                    # What is not to be trusted is not kept.
                    chain.links.pop()
                    if not chain.links:
                        chains.remove(chain)
                    if not chains:
                        del self.chains[name]
                    raise
        link.deviation = None if found is None else found[0]
        self._keeper.add(link, kept)

    @property
    def _guided(self) -> bool:
        """Whether attentions that nobody asked for may tell at which query the model continues."""
        return self._watch.current is not None and self._watch.current.row is None

    def _guide(self, call: Call, name: str) -> None:
        """Follow an attention that nobody asked for: what attends across, to the same keys, does not tell its place."""
        call.lse = call.q.new_empty((*call.q.shape[:2], 0))
        self._joined(self._guides.setdefault(name, []), _NOTHING, call, name)

    def _joined(self, chains: list[Chain], keeper: Keeper, call: Call, name: str) -> tuple[Link, Chain]:
        """Add a call where it belongs."""
        current = self._watch.current
        assert current is not None
        known = marks(call)
        ids = current.tokens(call.sizes[0], call.sizes[2])
        told = self._told[1] if self._told[0] == current.number else None
        place = chains[-1].follow(call, known, told) if chains else None
        new = (
            slice(None)
            if place is None
            else slice(place.past - place.offset, place.past - place.offset + call.sizes[2])
        )
        link = keeper.link(call, name, current.number, new, ids)
        if place is None:
            chains.append(Chain(link, known))
            return link, chains[-1]
        chain = chains[-1]
        chain.append(link, known, place)
        if not chain.cross:
            self._tell(current, place)
        return link, chain

    def _tell(self, current: Pass, place: Place) -> None:
        """Let what attends across in the same pass know how the text continues."""
        number, told = self._told
        if number == current.number:
            rows = None if told is None else place.both(told)
            self._told = number, None if rows is None else replace(place, rows=rows)
        else:
            self._told = current.number, place
        current.row = place.row

    def _lose(self, name: str, why: str) -> None:
        if self._wanted(name):
            self.lost[name] = why

    def _miss(self, name: str, why: str) -> None:
        if self._chosen(name):
            self.unseen.setdefault(name, why)

    def _wanted(self, name: str) -> bool:
        self.seen.add(name)
        return self._chosen(name)


def _compare(call: Call, name: str, found: tuple[float, float] | None) -> None:
    if found is not None and not found[0] <= found[1]:
        raise RecordingError(
            f"{name or '(model)'}: recorded weights times the values are off the model's own output by {found[0]:.2g}, "
            f"and rounding explains {found[1]:.2g}{_suspect(call)}"
        )


def _suspect(call: Call) -> str:
    if not bool(call.output.isfinite().all()):
        return ": its own output is not finite"
    if call.unknown:
        return f": its attention got {', '.join(call.unknown)}, which is not understood"
    return ": it does something that its arguments do not tell; leave it out with layers="
