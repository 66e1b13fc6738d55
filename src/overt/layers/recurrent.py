"""The gated recurrent unit, along a sequence and from both sides of it."""

from __future__ import annotations

from typing import Any

from overt.grid import Array, ArrayT, plain
from overt.layers.activations import sigmoid
from overt.layers.dense import project
from overt.layers.namespace import array_namespace, unstack
from overt.layers.parameters import Parameters


def gru_cell(x: ArrayT, state: Array, parameters: Parameters) -> ArrayT:
    """One step of a gated recurrent unit: x (…, X), state (…, D) → (…, D).

    Parameters: input_weight (3D, X), input_bias, state_weight (3D, D), state_bias, in the order reset, update,
    candidate; the reset gate acts after the product, as in torch.  Cho et al. 2014 (arXiv:1406.1078), section 2.3.
    """
    return _step(project(x, parameters, "input"), state, parameters)


def _step(input_gates: Array, state: Array, parameters: Parameters) -> Array:
    """One step from what the input gives to the gates, which can be computed for all steps at once."""
    D = state.shape[-1]
    xp = array_namespace(state, "state")
    hidden_gates = project(state, parameters, "state")
    gates = sigmoid(input_gates[..., : 2 * D] + hidden_gates[..., : 2 * D])
    candidate = xp.tanh(input_gates[..., 2 * D :] + gates[..., :D] * hidden_gates[..., 2 * D :])
    return candidate + gates[..., D:] * (state - candidate)


def gru(
    x: ArrayT,
    parameters: Parameters,
    *,
    lengths: Array | None = None,
    backwards: bool = False,
    state: Array | None = None,
) -> ArrayT:
    """A gated recurrent unit along x (B, T, X) → (B, T, D): the state after each position.

    lengths: (B,); behind the end of a row the state stands still.
    """
    xp = array_namespace(x)
    plain("lengths", lengths)
    input_gates = project(x, parameters, "input")
    if state is None:
        state = xp.zeros_like(input_gates[:, 0, : input_gates.shape[-1] // 3])
    states: list[Any] = [None] * x.shape[1]
    steps = list(enumerate(unstack(input_gates, 1)))
    for t, gates in reversed(steps) if backwards else steps:
        new = _step(gates, state, parameters)
        state = new if lengths is None else xp.where((lengths > t)[:, None], new, state)
        states[t] = state
    return xp.stack(states, axis=1)


def bidirectional_gru(x: ArrayT, parameters: Parameters, *, lengths: Array | None = None) -> ArrayT:
    """Annotations of each position from both sides: x (B, S, X) → (B, S, 2D).

    Parameters: forwards, backwards.  Bahdanau et al. 2015 (arXiv:1409.0473), section 3.2.
    """
    xp = array_namespace(x)
    return xp.concat(
        [
            gru(x, parameters["forwards"], lengths=lengths),
            gru(x, parameters["backwards"], lengths=lengths, backwards=True),
        ],
        axis=-1,
    )
