"""What a villager remembers when you talk to him. Plain Python, runs in the game loop.

    v = Villager(gut=0.05)
    v.live(smell, story, tick)           # smell: list of n floats, story: list of m floats
    v.seal(3)                            # the 4th memory is under a spell of silence
    v.recall(cue, tick)                  # cue: list of n floats  ->  list of m floats

A memory pulls with  cue . smell / sqrt(n)  minus  gut * (tick now - tick then).
The pulls of all memories that are NOT sealed become shares by softmax, and what comes
back is the mean of the stories by these shares. With nothing to remember: [].
When all is sealed the villager is blank: zeros.
"""
from math import exp, sqrt


class Villager:
    def __init__(self, gut=0.0):
        self.gut = gut
        self.head = []          # (smell, story, tick)
        self.sealed = set()     # numbers of memories that may not be used

    def live(self, smell, story, tick):
        self.head.append((list(smell), list(story), tick))

    def seal(self, number):
        self.sealed.add(number)

    def _pull(self, cue, smell, age):
        warmth = sum(a * b for a, b in zip(cue, smell))
        return warmth / sqrt(len(cue)) - self.gut * age

    def recall(self, cue, tick):
        if not self.head:
            return []
        blank = [0.0] * len(self.head[0][1])
        free = [m for i, m in enumerate(self.head) if i not in self.sealed]
        if not free:
            return blank
        pulls = [self._pull(cue, smell, tick - then) for smell, _, then in free]
        top = max(pulls)
        shares = [exp(p - top) for p in pulls]
        whole = sum(shares)
        for share, (_, story, _) in zip(shares, free):
            for c, x in enumerate(story):
                blank[c] += share / whole * x
        return blank


if __name__ == "__main__":
    bob = Villager(gut=0.1)
    bob.live([1.0, 0.0], [5.0, 0.0, 0.0], 0)
    bob.live([0.0, 1.0], [0.0, 7.0, 0.0], 3)
    print(bob.recall([0.9, 0.2], 4))
