"""Bad input: always one exception from overt.errors that says which argument, which sizes, and what to do."""

from __future__ import annotations

import ast
import inspect
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch

import overt
from overt import errors
from overt.errors import ArgumentError, DtypeError, OvertError, ShapeError

F = np.float32
Q, K, V = np.ones((2, 6, 4, 8), F), np.ones((2, 3, 5, 8), F), np.ones((2, 3, 5, 7), F)
RAGGED = [[1.0], [1.0, 2.0]]
NAN, INF = float("nan"), float("inf")


class Nothing:
    """An object that is no array and no number."""

    def __repr__(self) -> str:
        return "Nothing()"


def given(**changed: Any) -> dict[str, Any]:
    return {"q": Q, "k": K, "v": V, **changed}


SHAPES: list[tuple[dict[str, Any], str]] = [
    # Ragged lengths, the input on which torch 2.13 reads past the end of k.
    ({"v": np.ones((2, 3, 6, 7), F)}, r"v has 6 positions.*k has 5.*one row per key"),
    ({"v": np.ones((2, 3, 4, 7), F)}, r"v has 4 positions.*k has 5.*one row per key"),
    ({"v": np.ones((2, 3, 0, 7), F)}, r"v has 0 positions.*k has 5"),
    ({"v": np.ones((2, 2, 5, 7), F)}, r"v has 2 heads.*k has 3"),
    ({"v": np.ones((2, 1, 5, 7), F)}, r"v has 1 heads.*k has 3"),
    ({"k": np.ones((2, 4, 5, 8), F), "v": np.ones((2, 4, 5, 7), F)}, r"q has 6 heads.*k has 4.*multiple"),
    ({"k": np.ones((2, 12, 5, 8), F), "v": np.ones((2, 12, 5, 7), F)}, r"q has 6 heads.*k has 12.*multiple"),
    ({"k": np.ones((2, 0, 5, 8), F), "v": np.ones((2, 0, 5, 7), F)}, r"q has 6 heads.*k has 0"),
    ({"k": np.ones((2, 3, 5, 9), F)}, r"q has width 8.*k has 9"),
    ({"k": np.ones((2, 3, 5, 0), F)}, r"q has width 8.*k has 0"),
    ({"k": np.ones((2, 3, 5, 1), F)}, r"q has width 8.*k has 1"),
    ({"q": np.ones((3, 6, 4, 8), F)}, r"leading.*q \(3,\).*k \(2,\).*v \(2,\)"),
    ({"v": np.ones((3, 3, 5, 7), F)}, r"leading.*v \(3,\)"),
    ({"q": np.ones(8, F)}, r"q has shape \(8,\).*\(T, D\)"),
    ({"k": np.ones(8, F)}, r"k has shape \(8,\).*\(S, D\)"),
    ({"v": np.ones(5, F)}, r"v has shape \(5,\).*\(S, E\)"),
    ({"q": np.float32(1)}, r"q has shape \(\).*\(T, D\)"),
    ({"q": np.ones((4, 8), F)}, r"heads.*q \(4, 8\).*k \(2, 3, 5, 8\)"),
    ({"v": np.ones((5, 7), F)}, r"heads.*v \(5, 7\)"),
    ({"mask": np.ones((4, 4), bool)}, r"mask.*\(4, 4\).*\(2, 6, 4, 5\)"),
    ({"mask": np.ones((2, 5), bool)}, r"mask.*\(2, 5\).*\(2, 6, 4, 5\).*mask\[:, None, None, :\]"),
    ({"mask": np.ones((3, 4, 5), bool)}, r"mask.*\(3, 4, 5\).*\(2, 6, 4, 5\)"),
    ({"mask": np.ones((1, 2, 6, 4, 5), bool)}, r"mask.*\(1, 2, 6, 4, 5\).*\(2, 6, 4, 5\)"),
    ({"mask": np.ones(0, bool)}, r"mask.*\(0,\).*\(2, 6, 4, 5\)"),
    ({"bias": np.ones((4, 4), F)}, r"bias.*\(4, 4\).*\(2, 6, 4, 5\)"),
    ({"bias": np.ones((3, 1, 1), F)}, r"bias.*\(3, 1, 1\).*\(2, 6, 4, 5\)"),
    ({"bias": overt.alibi(np.ones(3, F))}, r"alibi.*3 heads.*q has 6"),
    ({"bias": overt.relative(np.ones((32, 3), F))}, r"relative.*3 heads.*q has 6"),
    ({"sinks": np.ones(3, F)}, r"sinks.*\(3,\).*6 heads.*\(6,\)"),
    ({"sinks": np.ones((6, 1), F)}, r"sinks.*\(6, 1\).*6 heads"),
    ({"sinks": np.ones((), F)}, r"sinks.*\(\).*6 heads"),
    ({"score": overt.bilinear(np.ones((8, 9), F))}, r"bilinear weight.*\(8, 9\).*\(8, 8\)"),
    (
        {"score": overt.additive(np.ones((4, 7)), np.ones((4, 8)), np.ones(4))},
        r"query_weight.*\(4, 7\).*q.*8.*\(A, 8\)",
    ),
    ({"score": overt.additive(np.ones((4, 8)), np.ones((4, 7)), np.ones(4))}, r"key_weight.*\(4, 7\).*k.*8.*\(A, 8\)"),
    ({"mask": overt.padding([5, 5, 5])}, r"padding lengths.*\(3,\).*\(2,\).*one per batch row"),
    ({"mask": overt.padding([[5, 5]])}, r"padding lengths.*\(1, 2\).*\(2,\)"),
    ({"mask": overt.prefix([1, 2, 3])}, r"prefix lengths.*\(3,\).*\(2,\)"),
    ({"mask": overt.documents([0, 0, 1])}, r"document ids.*3.*k has 5.*one id per key"),
    ({"mask": overt.documents(np.zeros((3, 5), int))}, r"document ids.*\(3,\).*\(2,\)"),
    ({"mask": overt.causal([0, 1, 2])}, r"offsets.*\(3,\).*\(2,\)"),
]

DTYPES: list[tuple[dict[str, Any], str]] = [
    *(({name: {"q": Q, "k": K, "v": V}[name].astype(bool)}, rf"{name} has dtype bool.*convert") for name in "qkv"),
    *(({name: {"q": Q, "k": K, "v": V}[name].astype(int)}, rf"{name} has dtype int64.*convert") for name in "qkv"),
    ({"q": Q.astype(complex)}, r"q has dtype complex128.*convert"),
    ({"q": Q.astype(object)}, r"q has dtype object.*convert"),
    ({"q": Q.astype("U4")}, r"q has dtype .*convert"),
    ({"q": Q.astype(np.longdouble)}, r"q has dtype (longdouble|float128).*convert"),
    ({"q": np.zeros((2, 6, 4, 8), "M8[s]")}, r"q has dtype datetime64.*convert"),
    ({"q": np.zeros((2, 6, 4, 8), [("re", F)])}, r"q has dtype .*convert"),
    ({"k": K.astype(np.float64)}, r"q is float32, k is float64, v is float32.*one dtype"),
    ({"v": V.astype(np.float16)}, r"q is float32, k is float32, v is float16.*one dtype"),
    ({"q": Q.tolist()}, r"q is a list, not an array.*numpy\.asarray\(q\)"),
    ({"k": tuple(K)}, r"k is a tuple, not an array.*numpy\.asarray\(k\)"),
    ({"v": None}, r"v is a NoneType, not an array"),
    ({"q": "query"}, r"q is a str, not an array"),
    ({"q": 1.0}, r"q is a float, not an array"),
    ({"q": Nothing()}, r"q is a Nothing, not an array"),
    ({"q": RAGGED}, r"q is a list, not an array"),
    ({"q": np.ones((4, 8), F).view(np.matrix), "k": K[0, 0], "v": V[0, 0]}, r"q is a matrix.*numpy\.asarray\(q\)"),
    ({"q": np.ma.ones((2, 6, 4, 8), F)}, r"q is a [Mm]asked_?[Aa]rray|q .*mask="),
    ({"q": torch.ones(2, 6, 4, 8)}, r"one library.*q torch.*k numpy"),
    ({"v": torch.ones(2, 3, 5, 7)}, r"one library.*v torch"),
    ({"mask": np.zeros((4, 5), F)}, r"mask has dtype float32.*True = may attend.*bias="),
    ({"mask": np.zeros((4, 5), complex)}, r"mask has dtype complex128"),
    ({"mask": np.ones((4, 5), int)}, r"mask has dtype int64.*boolean.*mask == 1"),
    ({"mask": 1}, r"mask has dtype int64.*boolean"),
    ({"mask": 0.0}, r"mask has dtype float64.*bias="),
    ({"mask": "causal"}, r"mask must be.*overt mask or a boolean array.*str"),
    ({"mask": Nothing()}, r"mask must be.*Nothing"),
    ({"mask": overt.causal}, r"mask must be.*not overt\.causal itself \(call it: overt\.causal\(…\)\)"),
    ({"mask": overt.Mask}, r"mask must be.*not overt\.Mask itself"),
    ({"mask": len}, r"mask must be.*not the function len"),
    ({"bias": overt.alibi}, r"bias is overt\.alibi itself \(call it"),
    ({"bias": overt.positions.alibi_slopes}, r"bias is overt\.positions\.alibi_slopes itself"),
    ({"bias": np.ndarray}, r"bias is the class ndarray, not an array"),
    ({"dropout": overt.dropout}, r"dropout must be.*not overt\.dropout itself"),
    ({"q": overt.attention}, r"q is overt\.attention itself"),
    ({"k": np.ones}, r"k is the function ones, not an array"),
    ({"mask": np.full((4, 5), None)}, r"mask must be.*boolean.*object"),
    ({"mask": [[True], [True, False]]}, r"mask .*no array"),
    ({"mask": overt.alibi(np.ones(6, F))}, r"mask .*bias="),
    ({"bias": np.ones((4, 5), bool)}, r"bias must be floats.*bool.*mask="),
    ({"bias": np.ones((4, 5), int)}, r"bias must be floats.*int64.*astype"),
    ({"bias": np.ones((4, 5), complex)}, r"bias must be floats.*complex128"),
    ({"bias": np.full((4, 5), "x")}, r"bias must be floats"),
    ({"bias": RAGGED}, r"bias .*no array"),
    ({"bias": Nothing()}, r"bias .*Nothing|bias must be floats.*object"),
    ({"bias": overt.causal()}, r"bias .*mask="),
    ({"bias": np.ones((4, 5))}, r"bias is float64 beside float32.*convert"),
    ({"sinks": [0.0] * 6}, r"sinks.*array of floats \(H,\)"),
    ({"sinks": 0.0}, r"sinks.*array of floats \(H,\)"),
    ({"sinks": np.ones(6, int)}, r"sinks.*array of floats \(H,\)"),
    ({"sinks": np.ones(6, complex)}, r"sinks.*array of floats \(H,\)"),
    ({"sinks": np.ones(6)}, r"sinks (is|are) float64 beside float32.*convert"),
    ({"score": None}, r"score.*overt\.scaled_dot\(\).*NoneType"),
    ({"score": "dot"}, r"score.*overt\.scaled_dot\(\).*str"),
    ({"score": overt.scaled_dot}, r"score.*overt\.scaled_dot\(\).*overt\.scaled_dot itself"),
    ({"score": 0.125}, r"score.*overt\.scaled_dot\(\).*float"),
    ({"dropout": 0.1}, r"dropout.*overt\.dropout\(rate, seed\).*0\.1"),
    ({"dropout": True}, r"dropout.*overt\.dropout\(rate, seed\).*True"),
    ({"mask": overt.where(lambda b, h, t, s: s - t)}, r"predicate.*booleans.*int64"),
]

ARGUMENTS: list[tuple[dict[str, Any], str]] = [
    *(
        ({"softcap": cap}, r"softcap must be a positive number")
        for cap in (0, 0.0, -1.0, NAN, INF, -INF, "30", (), [30.0])
    ),
    *(({"softcap": cap}, r"softcap must be a positive number") for cap in (True, np.complex64(1), 1j, np.array([3.0]))),
    ({"softcap": overt.dropout}, r"softcap must be.*overt\.dropout itself"),
    ({"softcap": -(10**400)}, r"softcap must be a positive number.*-1000.*… \(int\)"),
    ({"softcap": -(10**9999)}, r"softcap must be a positive number.*not an integer of 33216 bits"),
    ({"softcap": np.bool_(True)}, r"softcap must be a positive number.*True"),
    ({"mask": overt.padding([5, 6])}, r"padding lengths.*0…5.*6"),
    ({"mask": overt.padding([-1, 2])}, r"padding lengths.*0…5.*-1"),
    ({"mask": overt.padding(6)}, r"padding lengths.*0…5.*6"),
    ({"mask": overt.prefix([0, 6])}, r"prefix lengths.*0…5.*6"),
    ({"mask": overt.causal() & ~overt.padding(6)}, r"padding lengths.*0…5.*6"),
]


@pytest.mark.parametrize("call", [overt.attention, overt.attend, overt.trace])
@pytest.mark.parametrize(
    ("error", "changed", "message"),
    [
        pytest.param(error, *case, id=f"{error.__name__}-{'-'.join(case[0])}-{i}")
        for error, table in ((ShapeError, SHAPES), (DtypeError, DTYPES), (ArgumentError, ARGUMENTS))
        for i, case in enumerate(table)
    ],
)
def test_bad_input(call: Any, error: type[OvertError], changed: dict[str, Any], message: str) -> None:
    with pytest.raises(OvertError, match=message) as raised:
        call(**given(**changed))
    assert raised.type is error
    # One exception, and not one while another was handled.
    assert raised.value.__cause__ is None
    assert raised.value.__suppress_context__ or raised.value.__context__ is None
    assert len(str(raised.value)) < 400


ONES = np.ones((4, 8))
MAKING: list[tuple[Any, type[OvertError] | tuple[type[OvertError], ...], str]] = [
    *(
        (lambda x=x: overt.scaled_dot(x), ArgumentError, r"scale must be a finite number")
        for x in (NAN, INF, "x", [], 1j)
    ),
    (lambda: overt.scaled_dot("2"), ArgumentError, r"scale must be a finite number.*'2'"),
    (lambda: overt.scaled_dot(np.ones(2)), ArgumentError, r"scale must be a finite number"),
    (lambda: overt.scaled_dot(10**400), ArgumentError, r"scale must be a finite number"),
    (lambda: overt.cosine(None), ArgumentError, r"scale must be a finite number.*None"),
    (lambda: overt.cosine(-INF), ArgumentError, r"scale must be a finite number.*-inf"),
    (lambda: overt.bilinear(None), (ShapeError, DtypeError), r"bilinear weight.*\(Dq, Dk\).*None"),
    (lambda: overt.bilinear([[1.0]]), (ShapeError, DtypeError), r"bilinear weight.*array.*\(Dq, Dk\)"),
    (lambda: overt.bilinear(np.ones(3)), ShapeError, r"bilinear weight.*\(Dq, Dk\).*\(3,\)"),
    (lambda: overt.bilinear(np.ones((3, 3, 3))), ShapeError, r"bilinear weight.*\(Dq, Dk\).*\(3, 3, 3\)"),
    *(
        (
            # Refused where it is made or where it is used.
            lambda x=one, dtype=dtype: overt.attention(Q, K, V, score=overt.bilinear(np.full((8, 8), x, dtype))),
            DtypeError,
            r"bilinear weight.*floats",
        )
        for one, dtype in ((1, complex), ("1", "U1"), (None, object), (True, bool))
    ),
    *(
        (
            lambda dtype=dtype: overt.attention(Q, K, V, score=overt.additive(ONES.astype(dtype), ONES, np.ones(4))),
            DtypeError,
            r"additive query_weight.*floats",
        )
        for dtype in (complex, object)
    ),
    (lambda: overt.additive(ONES, ONES, np.ones(5)), ShapeError, r"query_weight.*4.*v has 5.*axis A"),
    (lambda: overt.additive(ONES[:3], ONES, np.ones(4)), ShapeError, r"query_weight.*3.*v has 4"),
    (lambda: overt.additive(ONES, ONES[:3], np.ones(4)), ShapeError, r"key_weight.*3.*v has 4"),
    (lambda: overt.additive(ONES, ONES, np.ones((4, 1))), ShapeError, r"additive v.*\(A,\).*\(4, 1\)"),
    (lambda: overt.additive(ONES, ONES, np.ones(4), np.ones(3)), ShapeError, r"additive bias.*3.*v has 4"),
    (lambda: overt.additive(ONES, ONES, np.ones(4), 1.0), (ShapeError, DtypeError), r"additive bias.*\(A,\).*1\.0"),
    (lambda: overt.additive(None, ONES, np.ones(4)), (ShapeError, DtypeError), r"query_weight.*\(A, Dq\).*None"),
    (lambda: overt.additive(ONES[0], ONES, np.ones(4)), ShapeError, r"query_weight.*\(A, Dq\).*\(8,\)"),
    (lambda: overt.window(-1, 0), ArgumentError, r"window left.*at least 0.*-1"),
    (lambda: overt.window(0, -2), ArgumentError, r"window right.*at least 0.*-2"),
    (lambda: overt.window(1.0, 0), ArgumentError, r"window left.*whole number.*1\.0"),
    (lambda: overt.window(overt.causal, 0), ArgumentError, r"window left.*whole number.*overt\.causal itself"),
    (lambda: overt.causal(overt.causal), DtypeError, r"offset is overt\.causal itself"),
    (lambda: overt.causal(np.uint64(2**63)), ArgumentError, r"offset reach 9223372036854775808"),
    (lambda: overt.padding([2**63]), ArgumentError, r"padding lengths reach"),
    (lambda: overt.padding(10**400), DtypeError, r"padding lengths must be integers, not object"),
    (lambda: overt.padding(overt.padding), DtypeError, r"padding lengths is overt\.padding itself"),
    (lambda: overt.documents(overt.documents), DtypeError, r"document ids is overt\.documents itself"),
    (lambda: overt.scaled_dot(10**9999), ArgumentError, r"scale must be a finite number, not an integer of 33216 bits"),
    (lambda: overt.scaled_dot(overt.dot), ArgumentError, r"scale must be a finite number, not overt\.dot itself"),
    (lambda: overt.bilinear(overt.bilinear), ShapeError, r"bilinear weight.*not overt\.bilinear itself"),
    (lambda: overt.dropout(overt.dropout, 0), ArgumentError, r"rate.*not overt\.dropout itself"),
    (lambda: overt.dropout(10**400, 0), ArgumentError, r"rate.*0 ≤ rate < 1.*\(int\)"),
    (lambda: overt.dropout(False, 0), ArgumentError, r"rate.*False"),
    (lambda: overt.dropout(0.1, 10**9999), ArgumentError, r"seed must be at most 18446744073709551615.*33216 bits"),
    (lambda: overt.alibi(overt.positions.alibi_slopes), DtypeError, r"slopes is overt\.positions\.alibi_slopes itself"),
    (lambda: overt.relative(np.ones((32, 2)), max_distance=10**400), ArgumentError, r"max_distance.*at most"),
    (lambda: overt.positions.sinusoidal(10**400, 8), ArgumentError, r"positions must be at most"),
    (lambda: overt.positions.sinusoidal(4, len), ArgumentError, r"width.*not the function len"),
    (lambda: overt.positions.alibi_slopes(10**400), ArgumentError, r"heads must be at most"),
    (
        lambda: overt.positions.rope(np.ones((4, 2)), True, layout="half"),
        DtypeError,
        r"positions must be integers.*bool",
    ),
    (lambda: overt.positions.rope(np.ones((4, 2)), 10**400, layout="half"), DtypeError, r"positions must be integers"),
    (lambda: overt.attend(Q, K, V).top(10**9999), ArgumentError, r"k must be at most.*33216 bits"),
    (lambda: overt.attend(Q, K, V).map(10**400, 2), ArgumentError, r"rows must be at most"),
    (lambda: overt.attend(Q, K, V).map(len, 2), ArgumentError, r"rows must be a whole number, not the function len"),
    (lambda: overt.Cache(mask=overt.causal), DtypeError, r"mask must be.*overt\.causal itself"),
    (lambda: overt.Cache(score=overt.dot), DtypeError, r"score must be.*overt\.dot itself"),
    (lambda: overt.Cache(bias=overt.alibi), DtypeError, r"bias is overt\.alibi itself"),
    (lambda: overt.Cache(softcap=0), ArgumentError, r"softcap must be a positive number"),
    (lambda: overt.merge(overt.attend), DtypeError, r"merge takes pairs.*overt\.attend itself"),
    (lambda: overt.window(0, True), ArgumentError, r"window right.*whole number.*True"),
    (lambda: overt.window("3", 0), ArgumentError, r"window left.*whole number.*'3'"),
    (lambda: overt.window(1, 1, 0.5), DtypeError, r"offset.*integers.*float64"),
    *((lambda x=x: overt.causal(x), DtypeError, r"offset.*integers") for x in (0.0, True, "0", [0.5], Nothing())),
    *((lambda x=x: overt.padding(x), DtypeError, r"padding lengths.*integers") for x in ([1.0], None, "ab", [True])),
    *((lambda x=x: overt.prefix(x), DtypeError, r"prefix lengths.*integers") for x in (2.0, None, [None])),
    (lambda: overt.padding(RAGGED), DtypeError, r"padding lengths.*no array"),
    (lambda: overt.documents([0.0, 1.0]), DtypeError, r"document ids.*integers.*float64"),
    (lambda: overt.documents(["a", "b"]), DtypeError, r"document ids.*integers"),
    (lambda: overt.documents(3), ShapeError, r"document ids.*one id per key"),
    (lambda: overt.documents(None), DtypeError, r"document ids.*integers"),
    (lambda: overt.keep(np.ones((2, 2))), DtypeError, r"mask.*float64.*bias="),
    (lambda: overt.keep([[1, 0]]), DtypeError, r"mask.*int64.*mask == 1"),
    (lambda: overt.keep(None), DtypeError, r"mask.*boolean.*None"),
    (lambda: overt.keep([[True], [True, False]]), DtypeError, r"mask.*no array"),
    (lambda: overt.keep(overt.causal()), DtypeError, r"mask.*boolean"),
    (lambda: overt.where(None), DtypeError, r"overt\.where.*function.*NoneType"),
    (lambda: overt.where(np.ones((2, 2), bool)), DtypeError, r"overt\.where.*function.*ndarray"),
    *(
        (lambda x=x: overt.dropout(x, 0), ArgumentError, r"rate.*0 ≤ rate < 1")
        for x in (-0.1, 1, 1.5, NAN, "0.1", None, [0.1])
    ),
    (lambda: overt.dropout(True, 0), ArgumentError, r"rate.*True"),
    *((lambda x=x: overt.dropout(0.1, x), ArgumentError, r"seed") for x in (-1, 2**64, 1.0, None, "1", True)),
    (lambda: overt.alibi("x"), DtypeError, r"slopes.*floats"),
    (lambda: overt.relative(None), DtypeError, r"table.*floats"),
]


@pytest.mark.parametrize(("make", "error", "message"), MAKING, ids=range(len(MAKING)))
def test_what_cannot_be_made(make: Any, error: Any, message: str) -> None:
    with pytest.raises(OvertError, match=message) as raised:
        make()
    assert isinstance(raised.value, error)
    assert len(str(raised.value)) < 400


@pytest.mark.parametrize("call", [overt.attention, overt.attend, overt.trace])
@pytest.mark.parametrize("dtype", [torch.int64, torch.complex64, torch.bool])
def test_tensors_are_checked_alike(call: Any, dtype: Any) -> None:
    q, k, v = (torch.from_numpy(x) for x in (Q, K, V))
    with pytest.raises(DtypeError, match=r"k has dtype (int64|complex64|bool).*convert"):
        call(q, k.to(dtype), v)
    with pytest.raises(DtypeError, match=r"q is float32, k is float64"):
        call(q, k.double(), v)
    with pytest.raises(ShapeError, match=r"v has 4 positions.*k has 5"):
        call(q, k, v[:, :, :4])
    with pytest.raises(DtypeError, match=r"bias="):
        call(q, k, v, mask=torch.zeros(4, 5))


WHOLE = torch.zeros(2, dtype=torch.int64, device="meta")
READ: dict[str, Any] = {
    "cu_seqlens": lambda: overt.packed(WHOLE),
    "mask": lambda: overt.attention(Q, K, V, mask=overt.padding(WHOLE)),
    "bias": lambda: overt.attention(Q, K, V, bias=overt.alibi(torch.zeros(6, device="meta"))),
    "sinks": lambda: overt.attention(Q, K, V, sinks=torch.zeros(6, device="meta")),
    "the dropout seed": lambda: overt.attention(Q, K, V, dropout=overt.dropout(0.1, WHOLE[0])),
    "positions": lambda: overt.positions.rope(Q[..., :2, :], WHOLE, layout="half"),
    "keys to keep": lambda: filled().keep(WHOLE),
    "beams": lambda: filled().reorder(WHOLE),
    "an index": lambda: overt.attend(*(torch.from_numpy(x) for x in (Q, K, V))).weights[WHOLE],
    "q": lambda: overt.trace(*(torch.empty(1, 2, 8, device="meta") for _ in range(3))),
    "v": lambda: overt.trace(*(torch.empty(1, 2, 8, device=where) for where in ("cpu", "cpu", "meta"))),
    "the queries of the model": lambda: recorded(Fused().to("meta")),
    "the weights of a softmax": lambda: recorded(Written().to("meta")),
    "weights": lambda: np.asarray(overt.attend(*(torch.empty(1, 2, 8, device="meta") for _ in range(3))).weights),
}


class Fused(torch.nn.Module):
    """A model that attends by torch's own kernel, of one linear map."""

    def __init__(self) -> None:
        super().__init__()
        self.linear = torch.nn.Linear(8, 8)

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        return torch.nn.functional.scaled_dot_product_attention(self.linear(x), x, x)


class Written(Fused):
    """The same by a softmax of its own."""

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        return torch.softmax(self.linear(x) @ x.mT / 8**0.5, -1) @ x


def recorded(model: torch.nn.Module) -> None:
    with overt.record(model):
        model(torch.empty(1, 2, 4, 8, device="meta"))


def filled() -> overt.Cache:
    cache = overt.Cache()
    cache.append(K, V)
    return cache


@pytest.mark.parametrize("name", READ)
def test_tensors_without_numbers(name: str) -> None:
    with pytest.raises(ArgumentError, match=rf"the numbers of .*{name} are read here, and a tensor on meta has none"):
        READ[name]()
    seen = overt.attend(*(torch.from_numpy(x) for x in (Q, K, V)))
    with pytest.raises(ArgumentError, match=r"dy lies on meta, but q on cpu"):
        seen.gradient(torch.empty(seen.output.shape, device="meta"))


@pytest.mark.parametrize(
    "cap", [10**400, np.float16(30), np.int8(30), np.float64(1e300)], ids=lambda x: type(x).__name__
)
def test_caps_of_any_size_and_type(cap: Any) -> None:
    expected = overt.attention(Q, K, V, softcap=30.0 if cap == 30 else 1e30)
    np.testing.assert_array_equal(overt.attention(Q, K, V, softcap=cap), expected)


def test_parameters_of_another_library_serve() -> None:
    # A weight that is being trained in torch may be looked at in NumPy.
    weight = torch.nn.Parameter(torch.eye(8))
    y = overt.attention(Q, K, V, score=overt.bilinear(weight))
    np.testing.assert_allclose(y, overt.attention(Q, K, V, score=overt.bilinear(np.eye(8))))
    sinks = torch.zeros(6, requires_grad=True)
    np.testing.assert_allclose(overt.attention(Q, K, V, sinks=sinks), overt.attention(Q, K, V, sinks=np.zeros(6, F)))


@pytest.mark.parametrize(
    "count", [0, -1, 1.5, "2", True, [2], np.float64(2), Nothing(), 2**31, np.uint64(2**63), 10**30]
)
def test_numbers_of_threads(count: Any) -> None:
    for ask in (
        lambda: overt.attention(Q, K, V, num_threads=count),
        lambda: overt.attention(Q, K, V, mask=overt.causal(), num_threads=count),
        lambda: overt.attend(Q, K, V, num_threads=count),
        lambda: overt.set_num_threads(count),
    ):
        with pytest.raises(ArgumentError, match=r"threads.*(at least|at most|whole number)"):
            ask()


# The tree.


def test_the_root_comes_first_and_everything_hangs_on_it() -> None:
    tree = ast.parse(Path(inspect.getfile(errors)).read_text())
    classes = [node.name for node in tree.body if isinstance(node, ast.ClassDef)]
    assert classes[0] == "OvertError"
    for name in classes:
        kind = getattr(errors, name)
        # A warning is nothing to catch.
        assert issubclass(kind, OvertError | SystemExit) or name.endswith("Warning")
        assert kind.__doc__
    assert OvertError.__mro__[1] is Exception


def test_each_error_is_also_the_one_that_python_would_raise() -> None:
    assert issubclass(ShapeError, ValueError)
    assert issubclass(ArgumentError, ValueError)
    assert issubclass(DtypeError, TypeError)


def test_nothing_else_is_raised_on_purpose() -> None:
    """Every raise in the package names a class of overt.errors, or one that Python's own protocols ask for."""
    allowed = {name for name in vars(overt.errors) if name.endswith("Error")} | {"NotImplementedError", "KeyError"}
    package = Path(inspect.getfile(overt)).parent
    for path in package.rglob("*.py"):
        for node in ast.walk(ast.parse(path.read_text())):
            if isinstance(node, ast.Raise) and isinstance(node.exc, ast.Call):
                name = ast.unparse(node.exc.func)
                # numpy.asarray(weights, copy=False) must raise ValueError; click words its own complaints;
                # the checker tells itself why a candidate gave no answer, has errors of its own, and refuses as Python
                # does; a module says what names it has not.
                own = {
                    "__init__.py": ["AttributeError"],
                    "weights.py": ["ValueError"],
                    "cli": ["click.UsageError"],
                    "check": [
                        "CallError",
                        "CheckerError",
                        "EndedError",
                        "ForgedError",
                        "UnattendedError",
                        "LackedError",
                        "PermissionError",
                        "TimeoutError",
                    ],
                }
                within = path.relative_to(package).parts
                known = {*allowed, *own.get(path.name, []), *own.get(within[0], [])}
                assert name in known, (path, node.lineno, name)


@pytest.mark.parametrize("length", [2**31 - 4096, 2**31, 2**33])
@pytest.mark.parametrize("mask", [None, overt.causal()])
def test_more_positions_than_a_call_takes(length: int, mask: Any) -> None:
    few, many = np.zeros((1, 2, 1), F), np.broadcast_to(F(0), (1, length, 1))
    with pytest.raises(ShapeError, match=rf"k has {length} positions \(axis -2, S\)"):
        overt.attention(few, many, many, mask=mask)
    with pytest.raises(ShapeError, match=rf"q has {length} positions \(axis -2, T\)"):
        overt.attend(many, few, few, mask=mask)


# Masked arrays, whose mask everything but NumPy's own functions drops without a word.

MASKED = np.ma.masked_greater(np.ones((2, 3, 4), np.float32), 5)
SMALL = np.ones((2, 3, 4), np.float32)


def visible(b: Any, h: Any, t: Any, s: Any) -> Any:
    return np.ma.masked_array(s <= t, mask=s == t)


def masked(*shape: int, dtype: object = np.float32) -> np.ma.MaskedArray:
    return np.ma.masked_array(np.ones(shape, dtype), mask=np.zeros(shape, bool))


GRU = {"input_weight": np.ones((15, 4)), "state_weight": np.ones((15, 5))}
HEADS = {f"{name}_weight": np.ones((4, 4), np.float32) for name in ("query", "key", "value", "output")}
TOKENS = np.zeros((2, 3), int)
HIDDEN = masked(2, 2, 1, 2)


@pytest.mark.parametrize(
    ("name", "ask"),
    [
        ("q", lambda: overt.attention(MASKED, SMALL, SMALL)),
        ("k", lambda: overt.attention(SMALL, MASKED, SMALL)),
        ("v", lambda: overt.attention(SMALL, SMALL, MASKED)),
        ("mask", lambda: overt.attention(SMALL, SMALL, SMALL, mask=masked(3, 3, dtype=bool))),
        ("mask", lambda: overt.keep(masked(3, 3, dtype=bool))),
        ("bias", lambda: overt.attention(SMALL, SMALL, SMALL, bias=masked(3, 3))),
        ("bias", lambda: overt.alibi(np.ones(2)) + masked(3, 3)),
        ("sinks", lambda: overt.attention(SMALL, SMALL, SMALL, sinks=masked(2))),
        ("alibi slopes", lambda: overt.alibi(masked(2))),
        ("the relative table", lambda: overt.relative(masked(8, 2))),
        ("bilinear weight", lambda: overt.bilinear(masked(4, 4))),
        ("additive query_weight", lambda: overt.additive(masked(5, 4), np.ones((5, 4)), np.ones(5))),
        ("additive key_weight", lambda: overt.additive(np.ones((5, 4)), masked(5, 4), np.ones(5))),
        ("additive v", lambda: overt.additive(np.ones((5, 4)), np.ones((5, 4)), masked(5))),
        ("additive bias", lambda: overt.additive(np.ones((5, 4)), np.ones((5, 4)), np.ones(5), masked(5))),
        ("padding lengths", lambda: overt.padding(masked(2, dtype=int))),
        ("document ids", lambda: overt.documents(masked(3, dtype=int))),
        ("dy", lambda: overt.attend(SMALL, SMALL, SMALL).gradient(MASKED)),
        ("dlse", lambda: overt.attend(SMALL, SMALL, SMALL).gradient(SMALL, masked(2, 3))),
        ("output 0", lambda: overt.merge([(MASKED, np.ones((2, 3), np.float32))])),
        ("lse 1", lambda: overt.merge([(SMALL, SMALL[..., 0]), (SMALL, masked(2, 3))])),
        ("x", lambda: overt.positions.rope(MASKED, layout="half")),
        ("table", lambda: overt.positions.learned(masked(4, 3), 2)),
        ("what the predicate says", lambda: overt.attention(SMALL, SMALL, SMALL, mask=overt.where(visible))),
        ("the dropout seed", lambda: overt.dropout(0.1, masked(dtype=np.int64))),
        ("output", lambda: overt.Attended(overt.attend(SMALL, SMALL, SMALL).problem, (MASKED[None], SMALL[..., 0]))),
        ("k", lambda: overt.Cache().append(MASKED, SMALL)),
        ("an index", lambda: overt.attend(SMALL, SMALL, SMALL).weights[0, masked(3, dtype=bool)]),
        ("x", lambda: overt.layers.softmax(MASKED)),
        ("x", lambda: overt.layers.linear(MASKED, np.ones((5, 4)))),
        ("weight", lambda: overt.layers.linear(SMALL, masked(5, 4))),
        ("bias", lambda: overt.layers.linear(SMALL, np.ones((5, 4)), masked(5))),
        ("table", lambda: overt.layers.embedding(masked(5, 4), np.zeros((1, 3), int))),
        ("tokens", lambda: overt.layers.embedding(np.ones((5, 4)), masked(1, 3, dtype=int))),
        ("table", lambda: overt.layers.positional_embedding(masked(5, 4), 0, 3)),
        ("table", lambda: overt.layers.unembedding(SMALL, masked(5, 4))),
        ("scale", lambda: overt.layers.layer_norm(SMALL, masked(4), np.ones(4))),
        ("offset", lambda: overt.layers.layer_norm(SMALL, np.ones(4), masked(4))),
        ("state", lambda: overt.layers.gru_cell(SMALL[0], masked(3, 5), GRU)),
        ("lengths", lambda: overt.layers.gru(SMALL, GRU, lengths=masked(2, dtype=int))),
        ("past", lambda: overt.layers.decoder_layer(SMALL, None, {"attention": HEADS}, heads=2, past=(HIDDEN, HIDDEN))),
        ("lengths", lambda: overt.layers.encoder_transformer(TOKENS, {}, heads=2, lengths=masked(2, dtype=int))),
        ("prompt", lambda: overt.layers.generate(lambda tokens: SMALL, masked(1, 3, dtype=int), 1)),
    ],
)
def test_masked_arrays_are_refused(name: str, ask: object) -> None:
    with pytest.raises(DtypeError, match=f"^{name} is a MaskedArray, not a plain array: use numpy.asarray"):
        ask()  # type: ignore[operator]
