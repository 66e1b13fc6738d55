"""What torch does to functions, done to attention: derivatives of every kind, maps, graphs, checkpoints."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest
import torch
from functorch.compile import make_boxed_func
from torch import Tensor
from torch._dynamo.backends.common import aot_autograd
from torch._inductor.utils import run_and_get_code
from torch.autograd import forward_ad
from torch.nn.functional import scaled_dot_product_attention
from torch.utils.checkpoint import checkpoint

import overt
import overt.interchange
from overt.errors import ArgumentError, QuadraticWarning
from overt.torch import attend, attention
from overt.torch.call import Call, read


def draw(*shapes: tuple[int, ...]) -> list[Tensor]:
    torch.manual_seed(0)
    return [torch.randn(shape, dtype=torch.float64, requires_grad=True) for shape in shapes]


def small() -> list[Tensor]:
    return draw((1, 2, 2, 3), (1, 1, 3, 3), (1, 1, 3, 2), (2, 2, 3), (2,))


def everything(q: Tensor, k: Tensor, v: Tensor, bias: Tensor, sinks: Tensor) -> tuple[Tensor, Tensor]:
    seen = attend(q, k, v, mask=overt.causal(), bias=bias, sinks=sinks, softcap=2.0)
    return seen.output, seen.lse


def sloped(q: Tensor, k: Tensor, v: Tensor, slopes: Tensor) -> Tensor:
    return attend(q, k, v, bias=overt.alibi(slopes), dropout=overt.dropout(0.3, 1), score=overt.cosine(2.0)).output


@pytest.mark.parametrize("slow", [everything, sloped])
def test_derivatives_of_every_order_and_direction(slow: Callable[..., Any]) -> None:
    q, k, v, bias, sinks = small()
    inputs = (q, k, v, bias, sinks) if slow is everything else (q, k, v, sinks)
    assert torch.autograd.gradcheck(slow, inputs, check_forward_ad=True)
    assert torch.autograd.gradgradcheck(slow, inputs, check_undefined_grad=False)


def test_a_third_derivative_is_right_too() -> None:
    q, k, v, *_ = small()

    def third(f: Callable[..., Tensor]) -> Tensor:
        found = f(q, k, v).sin().sum()
        for _ in range(2):
            found = torch.autograd.grad(found, q, create_graph=True)[0].sin().sum()
        return torch.autograd.grad(found, q)[0]

    torch.testing.assert_close(third(attention), third(scaled_with_groups))


def scaled_with_groups(q: Tensor, k: Tensor, v: Tensor) -> Tensor:
    return torch.softmax(q @ k.mT / q.shape[-1] ** 0.5, dim=-1) @ v


def test_forward_derivatives_are_not_zero() -> None:
    q, k, v, *_ = (x.detach() for x in small())
    dq = torch.randn_like(q)
    _, along = torch.func.jvp(lambda q: attention(q, k, v, mask=overt.causal()), (q,), (dq,))
    step = 1e-6
    numeric = attention(q + step * dq, k, v, mask=overt.causal()) - attention(q - step * dq, k, v, mask=overt.causal())
    torch.testing.assert_close(along, numeric / (2 * step), rtol=0, atol=1e-8)
    with forward_ad.dual_level():
        dual = attention(forward_ad.make_dual(q, dq), k, v, mask=overt.causal())
        torch.testing.assert_close(forward_ad.unpack_dual(dual).tangent, along)


def test_transforms_of_functions() -> None:
    q, k, v, bias, _ = (x.detach() for x in small())

    def f(q: Tensor) -> Tensor:
        return attention(q, k, v, mask=overt.causal(), bias=bias)

    def loss(q: Tensor) -> Tensor:
        return f(q).sin().sum()

    x = q.clone().requires_grad_()
    torch.testing.assert_close(torch.func.grad(loss)(q), torch.autograd.grad(loss(x), x)[0])
    jacobian = torch.autograd.functional.jacobian(f, q)
    torch.testing.assert_close(torch.func.jacrev(f)(q), jacobian)
    torch.testing.assert_close(torch.func.jacfwd(f)(q), jacobian)
    torch.testing.assert_close(torch.func.hessian(loss)(q), torch.autograd.functional.hessian(loss, q))
    many = torch.randn(4, *q.shape, dtype=q.dtype)
    torch.testing.assert_close(torch.func.vmap(f)(many), torch.stack([f(one) for one in many]))
    masks = torch.rand(4, 2, 3) > 0.3
    mapped = torch.func.vmap(lambda mask: attention(q, k, v, mask=mask))(masks)
    torch.testing.assert_close(mapped, torch.stack([attention(q, k, v, mask=mask) for mask in masks]))
    per_sample = torch.func.vmap(torch.func.grad(loss))(many)
    torch.testing.assert_close(per_sample, torch.stack([torch.func.grad(loss)(one) for one in many]))


def test_what_is_quadratic_says_so(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(overt.interchange, "SMALL", 5)
    q, k, v, *_ = (x.detach() for x in small())
    with pytest.warns(QuadraticWarning, match=r"keep all weights: 12 weights"):
        torch.func.grad(lambda q: attention(q, k, v).sum())(q)
    # Nothing is kept where nothing goes back.
    torch.func.jvp(lambda q: attention(q, k, v), (q,), (q,))
    torch.func.vmap(lambda q: attention(q, k, v))(q)


@pytest.mark.parametrize(
    "dtypes",
    [
        (torch.float32, torch.float32, torch.float32),
        (torch.float32, torch.bfloat16, torch.float32),
        (torch.bfloat16, torch.float16, torch.float32),
    ],
)
def test_autocast_is_that_of_torch(dtypes: tuple[torch.dtype, ...]) -> None:
    q, k, v = (x.detach().to(dtype).requires_grad_() for x, dtype in zip(draw(*[(2, 3, 4)] * 3), dtypes, strict=True))
    with torch.autocast("cpu", torch.bfloat16):
        ours, theirs = attention(q, k, v), scaled_dot_product_attention(q, k, v)
    assert ours.dtype == theirs.dtype == torch.bfloat16
    torch.testing.assert_close(ours, theirs, rtol=2e-2, atol=2e-2)
    ours.sum().backward()
    assert [x.grad.dtype for x in (q, k, v) if x.grad is not None] == list(dtypes)
    double = q.double().detach()
    with torch.autocast("cpu", torch.bfloat16):
        assert attention(double, double, double).dtype == torch.float64


# torch says this of its own code when it differentiates forwards for the first time.
pytestmark = pytest.mark.filterwarnings("ignore:.*torch.jit.script:DeprecationWarning")
LENGTHS = torch.tensor([5, 2])
IDS = torch.tensor([0, 0, 1, 1, 1])
KEEP = torch.arange(15).reshape(3, 5) % 4 > 0
OUTSIDE = overt.padding([5, 2]) & overt.causal()
COMPILED: dict[str, Callable[..., Tensor]] = {
    "nothing": attention,
    "causal": lambda q, k, v: attention(q, k, v, mask=overt.causal()),
    "window": lambda q, k, v: attention(q, k, v, mask=overt.window(2, 1)),
    "offset": lambda q, k, v: attention(q, k, v, mask=overt.causal(offset=0)),
    "made outside": lambda q, k, v: attention(q, k, v, mask=OUTSIDE),
    "lengths": lambda q, k, v: attention(q, k, v, mask=overt.padding(LENGTHS) & overt.causal()),
    "documents": lambda q, k, v: attention(q, k, v, mask=overt.documents(IDS) | overt.prefix([1, 2])),
    "tensor": lambda q, k, v: attention(q, k, v, mask=KEEP),
    "some of a tensor": lambda q, k, v: attention(q, k, v, mask=overt.keep(KEEP) & overt.causal()),
    "dense": lambda q, k, v: attention(
        q, k, v, bias=q.sum(dim=-1, keepdim=True), softcap=2.0, sinks=k[0, :, 0, 0].repeat(2)
    ),
    "alibi": lambda q, k, v: attention(q, k, v, bias=overt.alibi(q[0, :, 0, 0])),
    "T5": lambda q, k, v: attention(q, k, v, bias=overt.relative(q[:, :, 0].reshape(8, 4), max_distance=20)),
    "bilinear": lambda q, k, v: attention(q, k, v, score=overt.bilinear(q[0, 0, :1].mT @ k[0, 0, :1])),
    "additive": lambda q, k, v: attention(q, k, v, score=overt.additive(q[0, 0], k[0, 0, :3], v[0, 0, 0])),
    "dropout": lambda q, k, v: attention(q, k, v, dropout=overt.dropout(0.3, IDS.sum())),
    "half": lambda q, k, v: attention(q.bfloat16(), k.bfloat16(), v.bfloat16(), score=overt.cosine()).double(),
    "lse": lambda q, k, v: attend(q, k, v, mask=overt.causal()).lse,
    "overt itself": lambda q, k, v: overt.attention(q, k, v, mask=overt.causal()),
}


def inputs() -> list[Tensor]:
    return draw((2, 4, 3, 4), (2, 2, 5, 4), (2, 2, 5, 3))


@pytest.mark.parametrize("name", COMPILED)
def test_it_compiles_without_graph_breaks(name: str) -> None:
    tensors = inputs()
    torch._dynamo.reset()
    compiled = torch.compile(COMPILED[name], fullgraph=True, backend="aot_eager")
    found, expected = compiled(*tensors), COMPILED[name](*tensors)
    torch.testing.assert_close(found, expected)
    asked = tensors[:2] if name == "lse" else tensors
    ours, theirs = (torch.autograd.grad(x.sin().sum(), asked) for x in (found, expected))
    torch.testing.assert_close(ours, theirs)


def test_masks_that_change_are_not_baked_in() -> None:
    q, k, v = inputs()
    torch._dynamo.reset()
    compiled = torch.compile(lambda mask: attention(q, k, v, mask=mask), backend="aot_eager", fullgraph=True)
    for mask in (
        overt.padding([5, 3]), overt.padding([1, 5]), overt.causal(), overt.window(1, 0), overt.window(2, 0),
        overt.window(3, 1),
    ):  # fmt: skip
        torch.testing.assert_close(compiled(mask), attention(q, k, v, mask=mask))


def test_seeds_that_are_drawn_are_drawn_anew() -> None:
    q, k, v = inputs()
    torch._dynamo.reset()

    def f() -> Tensor:
        return attention(q, k, v, dropout=overt.dropout(0.5, torch.randint(2**62, ())))

    compiled = torch.compile(f, backend="aot_eager", fullgraph=True)
    assert not torch.equal(compiled(), compiled())


def test_what_cannot_be_compiled_is_refused_in_words() -> None:
    q, k, v = (x.detach() for x in inputs())
    torch._dynamo.reset()
    where = overt.where(lambda b, h, t, s: s <= t)
    with pytest.raises(Exception, match="no compiled or exported graph can carry"):
        torch.compile(lambda q: attention(q, k, v, mask=where), backend="aot_eager", fullgraph=True)(q)

    def along(q: Tensor) -> Tensor:
        return torch.func.jvp(lambda q: attention(q, k, v), (q,), (q,))[1]

    torch._dynamo.reset()
    with pytest.raises(Exception, match="cannot be traced"):
        torch.compile(along, backend="aot_eager", fullgraph=True)(q)
    torch._dynamo.reset()
    broken = torch.compile(along, backend="aot_eager")
    torch.testing.assert_close(broken(q), along(q))


def test_it_is_exported() -> None:
    class Module(torch.nn.Module):
        def forward(self, q: Tensor, k: Tensor, v: Tensor) -> Tensor:
            return attention(q, k, v, mask=OUTSIDE, bias=overt.alibi(q[0, :, 0, 0]))

    q, k, v = (x.detach() for x in inputs())
    program = torch.export.export(Module(), (q, k, v))
    torch.testing.assert_close(program.module()(q, k, v), Module()(q, k, v))


def test_modes_and_fake_tensors_see_the_operator() -> None:
    from torch._subclasses.fake_tensor import FakeTensorMode
    from torch.utils._python_dispatch import TorchDispatchMode

    class Names(TorchDispatchMode):
        def __torch_dispatch__(self, operator: Any, types: Any, args: Any = (), kwargs: Any = None) -> Any:
            names.append(str(operator))
            return operator(*args, **kwargs or {})

    names: list[str] = []
    q, k, v = inputs()
    with Names():
        y = attention(q, k, v, mask=overt.causal())
    assert "overt.attention_forward.default" in names
    torch.testing.assert_close(y, attention(q, k, v, mask=overt.causal()))
    with FakeTensorMode(allow_non_fake_inputs=True) as mode:
        fake = [mode.from_tensor(x) for x in (q, k, v)]
        assert attention(*fake).shape == y.shape


def test_the_operator_keeps_the_rules_of_operators() -> None:
    q, k, v = inputs()
    operator = torch.ops.overt.attention.default
    bias, sinks = torch.randn(4, 3, 5, dtype=torch.float64, requires_grad=True), torch.randn(4, dtype=torch.float64)
    for options in (
        {},
        {"mask": KEEP, "bias": bias, "sinks": sinks},
        {"mask": OUTSIDE, "softcap": 3.0, "dropout": overt.dropout(0.1, 3)},
    ):
        others: list[Tensor] = []
        integers: list[int] = []
        floats: list[float] = []
        names = "mask", "bias", "softcap", "sinks", "dropout", "num_threads"
        call = Call.of(q, k, v, **{"score": overt.scaled_dot(), **dict.fromkeys(names), **options})
        text = call.write(others, integers, floats)
        for rows in (True, False):
            torch.library.opcheck(operator, (q, k, v, rows, others, integers, floats, text))
        again = read(text, others, integers, floats)
        assert again.write([], [], []) == text
        assert repr(again.mask) == repr(call.mask)


@pytest.mark.parametrize("mask", [None, overt.causal()])
def test_compiled_code_hands_on_no_more_than_it_must(mask: Any) -> None:
    # Of a short call, arguments are the larger part of the time.
    given: list[tuple[str, int]] = []

    def note(graph: Any, _: Any) -> Any:
        given.extend((str(x.target), len(x.args)) for x in graph.graph.nodes if "overt." in str(x.target))
        return make_boxed_func(graph.forward)

    torch._dynamo.reset()
    backend = aot_autograd(fw_compiler=note, bw_compiler=note)
    compiled = torch.compile(lambda q, k, v: attention(q, k, v, mask=mask), fullgraph=True, backend=backend)
    q, k, v = inputs()
    with torch.no_grad():
        torch.testing.assert_close(compiled(q, k, v), attention(q, k, v, mask=mask))
    y = compiled(q, k, v)
    torch.testing.assert_close(*(torch.autograd.grad(x.sum(), (q, k, v)) for x in (y, attention(q, k, v, mask=mask))))
    text = 0 if mask is None else 4
    forward, backward = "overt.attention_forward.default", "overt.attention_backward.default"
    assert given == [(forward, 4 + text), (forward, 3 + (text and text + 1)), (backward, 7 + (text and text + 1))]


@pytest.mark.filterwarnings("ignore:dynamo_pgo force disabled")
def test_inductor_hands_on_no_defaults() -> None:
    # It does where an operator wants its tensors laid out as they were.
    torch._dynamo.reset()
    tensors = [x.detach() for x in inputs()]
    with torch._inductor.config.patch(force_disable_caches=True):
        _, (code,) = run_and_get_code(torch.compile(attention, fullgraph=True), *tensors)
    assert "attention_forward.default(arg0_1, arg1_1, arg2_1, False)\n" in code


@pytest.mark.parametrize("reentrant", [False, True])
def test_checkpoints_give_the_same_gradients(reentrant: bool) -> None:
    tensors = inputs()

    def f(q: Tensor, k: Tensor, v: Tensor) -> Tensor:
        return attention(q.sin(), k, v, mask=overt.causal(), bias=overt.alibi(q[0, :, 0, 0]))

    kept, again = f(*tensors), checkpoint(f, *tensors, use_reentrant=reentrant)
    ours, theirs = (torch.autograd.grad(x.sin().sum(), tensors) if not reentrant else None for x in (again, kept))
    if reentrant:
        again.sin().sum().backward()
        ours = tuple(x.grad for x in tensors)
        theirs = torch.autograd.grad(kept.sin().sum(), tensors)
    torch.testing.assert_close(ours, theirs)


def test_what_is_written_to_in_between_is_noticed() -> None:
    q, k, v = inputs()
    hidden = q * 1
    y = attention(hidden, k, v)
    with torch.no_grad():
        hidden.zero_()
    with pytest.raises(RuntimeError, match="modified by an inplace operation"):
        y.sum().backward()


def test_saved_tensors_pass_through_hooks() -> None:
    q, k, v = inputs()
    packed: list[tuple[int, ...]] = []

    def pack(x: Tensor) -> Tensor:
        packed.append(tuple(x.shape))
        return x.clone()

    with torch.autograd.graph.saved_tensors_hooks(pack, lambda x: x):
        y = attention(q, k, v)
    assert {tuple(x.shape) for x in (q, k, v, y)} <= set(packed)
    ours = torch.autograd.grad(y.sum(), (q, k, v))
    torch.testing.assert_close(ours, torch.autograd.grad(attention(q, k, v).sum(), (q, k, v)))


MAPPED: dict[str, dict[str, Any]] = {
    "plain": {},
    "softcap": {"softcap": 2.0},
    "masked cosine": {"mask": overt.causal() & overt.padding(2), "score": overt.cosine()},
}


@pytest.mark.parametrize("name", MAPPED)
def test_gradients_that_autograd_maps_over(name: str) -> None:
    def both(q: Tensor, k: Tensor, v: Tensor) -> tuple[Tensor, Tensor]:
        seen = attend(q, k, v, **MAPPED[name])
        return seen.output, seen.lse

    tensors = tuple(draw((3, 4), (3, 4), (3, 4)))
    assert torch.autograd.gradcheck(both, tensors, check_batched_grad=True)
    assert torch.autograd.gradgradcheck(both, tensors, check_batched_grad=True)
    for kind in (torch.float64, torch.float32, torch.bfloat16):
        q, k, v = (x.detach().to(kind) for x in tensors)

        def one(q: Tensor, k: Tensor = k, v: Tensor = v) -> Tensor:
            return attention(q, k, v, **MAPPED[name])

        whole = torch.autograd.functional.jacobian(one, q)
        assert torch.equal(torch.autograd.functional.jacobian(one, q, vectorize=True), whole)
        with pytest.raises(ArgumentError, match=r"use torch\.func\.jacrev"):
            torch.autograd.functional.jacobian(one, q, vectorize=True, create_graph=True)


NUMBERS = torch.tensor([0, 2, 5])
OF_NUMBERS: dict[str, Callable[[Tensor], Any]] = {
    "padding": overt.padding,
    "prefix": lambda n: overt.prefix(n) & ~overt.padding(n - n),
    "offset": lambda n: overt.causal(offset=n) | overt.window(1, 1, offset=n),
    "documents": lambda n: overt.documents((torch.arange(5) < n).long()),
    "keep": lambda n: overt.keep((torch.arange(5) < n)[None]),
}


@pytest.mark.parametrize("name", OF_NUMBERS)
def test_numbers_of_masks_are_mapped_over(name: str) -> None:
    torch.manual_seed(0)
    q = torch.randn(3, 2, 5, 8)

    def one(q: Tensor, n: Tensor) -> Tensor:
        return overt.attention(q, q, q, mask=OF_NUMBERS[name](n))

    alone = torch.stack([one(*each) for each in zip(q, NUMBERS, strict=True)])
    torch.testing.assert_close(torch.vmap(one)(q, NUMBERS), alone)
    slopes = torch.vmap(torch.func.grad(lambda *each: one(*each).sum()))(q, NUMBERS)
    assert slopes.shape == q.shape


def test_what_is_read_is_not_mapped_over() -> None:
    q = torch.randn(2, 5, 8)
    with pytest.raises(ArgumentError, match=r"the numbers of cu_seqlens are read here, and what torch\.vmap maps"):
        torch.vmap(lambda n: attention(q, q, q, mask=overt.packed(n)))(torch.tensor([[0, 2, 5]]))
    # A function is asked about cells where the tensors are that it holds, unless numbers are read on the host.
    ids = torch.tensor([[0, 0, 1, 1, 1], [0, 1, 1, 2, 2]])
    same = [overt.where(lambda b, h, t, s, own=own: own[t] == own[s]) for own in ids]
    expected = torch.stack([attention(q, q, q, mask=mask) for mask in same])
    mapped = torch.vmap(lambda own: attention(q, q, q, mask=overt.where(lambda b, h, t, s: own[t] == own[s])))(ids)
    torch.testing.assert_close(mapped, expected)
    with pytest.raises(ArgumentError, match=r"the numbers of what the predicate says are read here, and what torch\."):
        torch.vmap(lambda own: overt.where(lambda b, h, t, s: own[t] == own[s]).dense(5, 5))(ids)


def test_an_open_result_is_compiled_whole() -> None:
    layer = overt.torch.SelfAttention(12, heads=3)
    x = torch.randn(2, 5, 12)

    def both(x: Tensor) -> Any:
        return layer(x, mask=overt.causal(), attended=True)

    y, seen = torch.compile(both, fullgraph=True, backend="aot_eager")(x)
    expected, other = both(x)
    torch.testing.assert_close(y, expected)
    torch.testing.assert_close(seen.lse, other.lse)
    torch.testing.assert_close(seen.weights[0, 1], other.weights[0, 1])
    half = torch.compile(lambda x: attend(x, x, x, score=overt.cosine()).output, fullgraph=True, backend="aot_eager")
    assert half(x.half()).dtype == torch.float16
