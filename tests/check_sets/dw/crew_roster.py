"""Who listens to whom on deck: plain-Python attention with ship names (teaching material).

watch(sailors, officers, cargo, on_leave)
    sailors    list of vectors (lists of d floats), one per sailor         -- they ask
    officers   list of vectors (d floats), one per officer                 -- they are asked
    cargo      list of vectors (any length), one per officer               -- what is handed over
    on_leave   list of bools, one per officer, True = ashore, hands over nothing
returns one vector per sailor: the mean of the cargo of the officers on board, weighted by
exp(sailor . officer / sqrt(d)).  When all officers are ashore each sailor gets a zero vector.
"""
from math import exp, sqrt, inf


def hail(sailor, officer):
    return sum(a * b for a, b in zip(sailor, officer)) / sqrt(len(sailor))


def watch(sailors, officers, cargo, on_leave):
    hold = len(cargo[0])
    manifest = []
    for sailor in sailors:
        loudest, tide, load = -inf, 0.0, [0.0] * hold
        for officer, crate, ashore in zip(officers, cargo, on_leave):
            if ashore:
                continue
            voice = hail(sailor, officer)
            if voice > loudest:
                ebb = exp(loudest - voice)
                tide *= ebb
                load = [x * ebb for x in load]
                loudest = voice
            share = exp(voice - loudest)
            tide += share
            load = [x + share * c for x, c in zip(load, crate)]
        manifest.append([x / tide for x in load] if tide else load)
    return manifest


if __name__ == "__main__":
    print(watch([[1.0, 0.0]], [[2.0, 0.0], [0.0, 2.0]], [[1.0], [0.0]], [False, False]))
