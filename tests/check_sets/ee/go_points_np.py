"""Go engine without a framework: points of the board look at each other.

liberties(ask, lib, stone, board)
    ask    (G, P, d)   G heads, P asking points
    lib    (G, R, d)   R points that can be looked at (keys)
    stone  (G, R, c)   what they tell (values)
    board  (R,)        1 = point on the board, 0 = outside the frame (small boards are
                       padded); a point outside has no influence at all
returns (G, P, c)

For each head and each asking point: logits ask . lib / sqrt(d) for all R points, a softmax
over those R points that are on the board, and the mean of `stone` with these weights.
"""
import numpy as np


def soft(x, axis):
    x = np.exp(x - x.max(axis=axis, keepdims=True))
    return x / x.sum(axis=axis, keepdims=True)


def liberties(ask, lib, stone, board):
    d = ask.shape[-1]
    heat = np.einsum("gpd,grd->gpr", ask, lib) / np.sqrt(d)
    heat = heat * board[None, None, :]
    w = soft(heat, axis=-2)
    return np.einsum("gpr,grc->gpc", w, stone)


def demo(side=5, frame=7, heads=2, d=4, seed=3):
    g = np.random.default_rng(seed)
    yy, xx = np.mgrid[:frame, :frame]
    board = ((yy < side) & (xx < side)).ravel().astype(float)
    R = frame * frame
    x = g.normal(size=(3, heads, R, d))
    return liberties(x[0], x[1], x[2], board)


if __name__ == "__main__":
    print(demo().shape)
