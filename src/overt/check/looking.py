"""The search for a call that attends: every call that works is recorded, and what is seen says where to look on."""

from __future__ import annotations

import time
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Any

from overt.check.calls import call as calls
from overt.check.calls.call import Guess, Lengths, Tried
from overt.check.calls.search import Search
from overt.check.making import instances
from overt.check.process.session import Here, Session
from overt.check.text.interface import Interface
from overt.check.text.syntax import blocks
from overt.check.varied import beside, outside
from overt.check.varied.asking import Caller
from overt.check.varied.varying import Found, kinds_of, names, square

# Calls of one request that are looked into, and of all.
CALLS, _RAN = 4, 8
# Calls of one instance before it is the turn of one that came as far, and turns before that of the least called.
TURN, _LEAST = 200, 4
# Seconds after which no other call is looked for, of all other methods together too, and after one that attends.
SECONDS, _LATE = 20.0, 6.0
# Calls that are tried beyond one that attends: on a busy machine as many as on an idle one, in a second or two there.
_MORE, _OTHERS = {"numpy": 1000, "jax": 8}, 400
# Steps that may be left untried, as a mask is that nobody gives, where no other call is looked for.
_ENOUGH = 2
# Numbers that may be too small, where they say how many keys there are.
_FEW = ("side", "2", "1", "number of heads")
# Positions of which enough can be seen; keys where few blocks have but one, and where few have all.
_PLENTY, _LONG, _LONGER = 5, 16, 40


@dataclass
class Looking:
    """Calls that work are looked into, one after another, until enough was seen of one that attends."""

    session: Session | Here
    face: Interface
    made: beside.Made
    ladder: Sequence[Lengths] = calls.LADDER
    seconds: float = SECONDS
    # of each instance its handle, and the calls of it
    searches: list[tuple[int | None, Search, Iterator[list[Tried]]]] = field(default_factory=list)
    # what ran, and was judged
    ran: list[Tried] = field(default_factory=list)
    callers: list[tuple[Caller, Guess]] = field(default_factory=list)
    # what attends; what seems to by its weights alone
    found: list[Found] = field(default_factory=list)
    unsure: list[Found] = field(default_factory=list)
    # instances that could not be made, and how the checker itself failed
    refused: list[Tried] = field(default_factory=list)
    broken: list[str] = field(default_factory=list)

    _judged: dict[tuple[int | None, Guess], dict[str, Any]] = field(default_factory=dict)

    def __post_init__(self) -> None:
        self._end, self._most = time.monotonic() + self.seconds, calls.MOST

    def caller(self, handle: int | None) -> Caller:
        return Caller(self.session, self.face, handle)

    def tried(self, handle: int | None) -> tuple[Caller, list[Tried]]:
        """The calls that were tried of an instance, or of the first where none were of this one, and what calls it."""
        handle, search, _ = next((one for one in self.searches if one[0] == handle), self.searches[0])
        return self.caller(handle), search.tried

    @property
    def failed(self) -> list[Tried]:
        """The calls that were tried, or the instances where none could be made."""
        return [tried for _, search, _ in self.searches for tried in search.tried] or self.refused

    @property
    def _calls(self) -> int:
        return sum(len(search.tried) for _, search, _ in self.searches)

    @property
    def _over(self) -> bool:
        return time.monotonic() > self._end or self._calls >= self._most

    def run(self) -> None:
        """Look until enough was seen, or no other call is to be tried."""
        for handle, lengths, named in instances(self.session, self.face, self.made, self.refused, self.ladder):
            search = Search(self.session, self.face, self.caller(handle).replies, lengths, named=named)
            some = search.run()
            self.searches.append((handle, search, some))
            if self._look(handle, next(some, [])):
                return
            if self._over:
                break
        # Of several instances, that whose calls came furthest is called on, in turns with others that came as far; now
        # and then the one that was called least, for what is no right instance may come far.
        going = list(self.searches)
        turn = 0
        while going and not self._over:
            turn += 1
            best = max(going, key=lambda one: (one[1].reached, -(len(one[1].tried) // TURN)))
            best = best if turn % _LEAST else min(going, key=lambda one: len(one[1].tried))
            found = next(best[2], None)
            if found is None or (len(self.searches) > 1 and len(best[1].tried) >= calls.MOST // 2):
                going.remove(best)
            if self._look(best[0], found or []):
                return

    def _look(self, handle: int | None, some: Sequence[Tried]) -> bool:
        """Whether what runs is enough."""
        for tried in some[:CALLS]:
            judged = self._recorded(handle, tried.guess)
            if "error" in judged:
                # Another call may be of a kind that is foreseen.
                self.broken.append(judged["error"])
                self.ran[:] = self.ran or [tried]
            elif self._enough(handle, tried, judged):
                return True
        return len(self.ran) >= _RAN and not self.found

    def _recorded(self, handle: int | None, guess: Guess) -> dict[str, Any]:
        """What the recording of a call comes to, which is made once."""
        if (handle, guess) not in self._judged:
            (self._judged[handle, guess],) = self.caller(handle).recorded(guess)
        return self._judged[handle, guess]

    def _enough(self, handle: int | None, tried: Tried, judged: dict[str, Any]) -> bool:
        """Whether a call that was judged shows enough; what it shows is kept."""
        caller, face = self.caller(handle), self.face
        self.ran.append(tried)
        if len(self.callers) < CALLS:
            self.callers.append((caller, tried.guess))
        for other in _clearer(face, tried.guess, judged):
            again = self._recorded(handle, other)
            if again.get("cores"):
                tried, judged = Tried(other, {}), again
        tried, judged = self._parted(handle, tried, judged)
        if "additive_ignores_keys" in names(judged):
            # Keys that are lost in a loop over numbers do enter.
            judged = outside.read(caller, square(tried.guess)) or outside.read(caller, tried.guess) or judged
        # Widths and lengths of 1 hide what can be wrong.
        left = (entry["step"] for entry in judged.get("ledger", ()) if entry["outcome"] == "not tried")
        # The same of each attention is one thing.
        lost = len({step.rpartition(", ")[2] for step in left})
        single = any("1" in kind for _, kind in tried.guess.kinds if kind in calls.FLOATS)
        few = face.intents["pairs"] and (single or tried.guess.lengths.T == 1)
        ranks = face.read.ranks
        given = {p: len(calls.axes_of(kind)) for p, kind in tried.guess.kinds if p in ranks}
        taken = len({*given.values()}) > 1 and all(ranks[p] == {n} for p, n in given.items())
        one = Found(lost, handle, tried.guess, judged, kinds_of(face, tried.guess), few, taken)
        # Weights alone may be those of another call than is meant.
        seen = (e["step"] for e in judged.get("ledger", ()) if e["outcome"] != "not tried")
        if any(not step.endswith("weights") for step in seen) and not one.gates:
            self.found.append(one)
            if not one.doubtful:
                self._end = min(self._end, time.monotonic() + _LATE)
                self._most = min(self._most, self._calls + _MORE.get(face.description["backend"], _OTHERS))
        elif judged.get("cores") and not one.gates:
            self.unsure.append(one)
            if self._wider(handle, tried):
                return True
        if self.found and lost < _ENOUGH and not self.found[-1].doubtful:
            return True
        # Of what is doubtful there may be more before something is sure.
        return len(self.ran) >= _RAN + min(2 * _RAN, sum(one.doubtful for one in self.found))

    def _parted(self, handle: int | None, tried: Tried, judged: dict[str, Any]) -> tuple[Tried, dict[str, Any]]:
        """Three blocks, where one is all there is: a number that it has by itself, as long as all keys."""
        caller, n = self.caller(handle), tried.guess.lengths
        made = self.made.of(caller)
        given = made[0].by_name if made else {}
        numbers = {k for name, k in self.made.numbers(caller).items() if name not in given and type(k) is int}
        if n.T not in numbers - {1, n.H} or _keys(judged) != {n.T}:
            return tried, judged
        longer = tried.guess.sized(T=3 * n.T, S=3 * n.T if n.S == n.T else n.S)
        again = self._recorded(handle, longer)
        return (Tried(longer, {}), again) if _keys(again) == {n.T} else (tried, judged)

    def _wider(self, handle: int | None, tried: Tried) -> bool:
        """Whether more is seen where a number that is given, or one of its constructor, lets more keys through."""
        more = (path for path, kind in tried.guess.kinds if kind in _FEW)
        longer = [Tried(tried.guess.given(path, "length"), {}) for path in more]
        if longer and self._look(handle, longer[:1]):
            return True
        caller = self.caller(handle)
        own = self.made.of(caller)
        for name in [path[0] for path, kind in own[0].kinds if kind == "0"] if own and len(self.unsure) == 1 else []:
            wider = self.made.other(caller, {name: 2})
            if wider is not None and self._look(wider.handle, [tried]):
                return True
        return False


def _keys(judged: Mapping[str, Any]) -> set[int]:
    """How many keys the attentions of a recording have."""
    return {one["keys"] for one in judged.get("facts", {}).get("spans", ())}


def _clearer(face: Interface, guess: Guess, judged: Mapping[str, Any]) -> Iterator[Guess]:
    """Other calls like one that runs, of which more may be seen."""
    n, kinds = guess.lengths, dict(guess.kinds)
    facts = judged.get("facts", {})
    spans = facts.get("spans") or [{"keys": 0}]
    if guess.dtype != "float64":
        # On the way to what runs the numbers may have become narrow for nothing.
        yield replace(guess, dtype="float64")
    astray = any("could not be followed" in entry["why"] for entry in judged.get("ledger", ()))
    kept = astray and any(kind[:3] == "by " for kind in kinds.values())
    if kept or facts.get("pieces") or "pages" in kinds.values():
        # Pages may be read a few at a time.
        yield _longer(guess)
    elif _cut(spans):
        # Of the last piece, which is no whole one, little can be seen.
        yield _with(guess, _LONG)
    elif blocks(face.whole):
        # Blocks that are as wide as that have all keys in one.
        yield _with(guess, _LONGER)
    if 1 < n.T == n.S < _PLENTY:
        # Of two positions little can be seen.
        yield guess.sized(T=_PLENTY, S=_PLENTY)
    if n.H > 1 and n.H in (n.T, n.S):
        # Heads that are as many as positions hide where one is taken for the other.
        yield guess.sized(T=n.T + (n.T == n.H), S=n.S + (n.S == n.H))
    if "bounds in T" in kinds.values() and n.T % 2:
        # Two pieces of one length may be read side by side.
        yield guess.sized(T=n.T + 1, S=n.S + (n.S == n.T))
    counted = [path for path, kind in guess.kinds if kind == "lengths"]
    if counted and n.T < n.S and {one["keys"] for one in spans} == {n.T}:
        # What counts more keys than there are hides none.
        yield guess.given(counted[0], calls.SHORTER)
    if face.batches_first is False and {one["keys"] for one in spans} == {n.B}:
        # What was taken for samples are the positions.
        yield guess.turned


def _cut(spans: Sequence[Mapping[str, Any]]) -> bool:
    """Whether one line attends to some keys, and then to these and fewer more."""
    lines: dict[Any, set[int]] = {}
    for span in spans:
        lines.setdefault(span.get("line"), set()).add(span["keys"])
    return any(len(keys) > 1 and sorted(keys)[1] < 2 * min(keys) for keys in lines.values())


def _with(guess: Guess, keys: int) -> Guess:
    """With so many keys, and as many queries or half of them: fewer show where a causal mask begins."""
    n = guess.lengths
    return guess.sized(S=keys, T=keys if n.T == n.S else keys // 2)


def _longer(guess: Guess) -> Guess:
    """With so many keys that every block of them has several."""
    crossed = any("S" in kind for _, kind in guess.kinds if calls.is_floats(kind))
    return guess.sized(S=_LONG, T=guess.lengths.T if crossed else _LONG)
