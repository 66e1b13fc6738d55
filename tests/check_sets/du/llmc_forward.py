"""attention_forward from llm.c (train_gpt2.c), translated line by line to Python.

No NumPy on purpose: I want to step through it with pdb next to gdb.  Buffers are flat
lists with the same index arithmetic as the C code.
"""
import math


def attention_forward(inp, B, T, C, NH):
    """
    inp  flat list of B*T*3C floats: the q, k, v vectors (in that order, each C long) of
         every token; head h owns the slice [h*hs, (h+1)*hs) of each
    out  flat list of B*T*C floats
    Causal self attention: token t attends to tokens 0..t, scale 1/sqrt(hs).
    Returns (out, preatt, att); preatt/att are flat (B, NH, T, T), zeros above the diagonal
    """
    out = [0.0] * (B * T * C)
    preatt = [0.0] * (B * NH * T * T)
    att = [0.0] * (B * NH * T * T)
    C3 = C * 3
    hs = C // NH
    scale = 1.0 / math.sqrt(hs)
    for b in range(B):
        for t in range(T):
            for h in range(NH):
                query_t = b * T * C3 + t * C3 + h * hs
                row = b * NH * T * T + h * T * T + t * T
                # pass 1: query dot key and the maximum
                maxval = -10000.0
                for t2 in range(t + 1):
                    key_t2 = b * T * C3 + t2 * C3 + h * hs + C        # +C: it is the key
                    val = 0.0
                    for i in range(hs):
                        val += inp[query_t + i] * inp[key_t2 + i]
                    val *= scale
                    if t2 == 0 or val > maxval:
                        maxval = val
                    preatt[row + t2] = val
                # pass 2: exponentials and their sum
                expsum = 0.0
                for t2 in range(t + 1):
                    expv = math.exp(preatt[row + t2] - maxval)
                    expsum += expv
                    att[row + t2] = expv
                expsum_inv = 0.0 if expsum == 0.0 else 1.0 / expsum
                # pass 3: normalise; t2 > t stays at zero
                for t2 in range(t + 1):
                    att[row + t2] *= expsum_inv
                # pass 4: weighted values
                out_bth = b * T * C + t * C + h * hs
                for t2 in range(t + 1):
                    value_t2 = b * T * C3 + t2 * C3 + h * hs + 2 * C  # +2C: it is the value
                    w = att[row + t2]
                    for i in range(hs):
                        out[out_bth + i] += w * inp[value_t2 + i]
    return out, preatt, att
