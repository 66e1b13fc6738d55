"""tavern.py - who listens to whom in the tavern (roguelike, NPC gossip).

Each patron has a trait vector. A patron picks up the mood of the people he can
hear, in proportion to softmax(interest):

    interest[a, b] = ears[a] . mouth[b] / sqrt(length of the trait vectors)
    mood'[a]       = sum_b share[a, b] * mood[b]

    traits (N, F)    ears = traits @ listen, mouth = traits @ talk, both (F, F)
    mood   (N, M)
    deaf   (N, N)    bool, deaf[a, b] True: a wall stands between a and b, and a
                     hears nothing from b. Everyone hears himself.

A tick of the game is `gossip(...)`; it returns the new mood and the shares,
each row of which sums to one with zeros through walls.
"""
import numpy as np


def share_out(interest):
    calm = interest - interest.max(axis=1, keepdims=True)
    loud = np.exp(calm)
    return loud / loud.sum(axis=1, keepdims=True)


def gossip(traits, mood, listen, talk, deaf=None):
    ears = traits @ listen
    mouth = traits @ talk
    interest = ears @ mouth.T / np.sqrt(len(mouth))
    if deaf is not None:
        interest = interest + deaf
    share = share_out(interest)
    return share @ mood, share


def evening(traits, mood, listen, talk, deaf, ticks=3):
    diary = [mood]
    for _ in range(ticks):
        mood, _ = gossip(traits, mood, listen, talk, deaf)
        diary.append(mood)
    return diary
