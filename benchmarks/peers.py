"""The other libraries, each as a call that returns the same output; what is not installed is left out."""

from __future__ import annotations

from collections.abc import Callable
from functools import cache
from importlib.util import find_spec
from typing import Any

import numpy as np

Call = Callable[[], np.ndarray]


@cache
def missing() -> list[str]:
    """Peers that are not installed."""
    return [name for name in ("torch", "onnxruntime", "openvino", "jax") if find_spec(name) is None]


def forward(
    q: np.ndarray,
    k: np.ndarray,
    v: np.ndarray,
    *,
    causal: bool = False,
    mask: np.ndarray | None = None,
    rule: Callable[..., Any] | None = None,
    threads: int = 1,
) -> dict[str, Call]:
    """Scaled dot-product attention of q (B, H, T, D), k and v (B, G, S, ·), float32, mask (B, 1, T, S).

    ``rule`` is the mask as a function of positions, which FlexAttention wants.
    """
    calls: dict[str, Call] = {}
    if "torch" not in missing():
        calls["torch"] = _torch(q, k, v, causal, mask, threads)
    if "onnxruntime" not in missing():
        calls["ONNX Runtime Attention"] = _onnxruntime(q, k, v, causal, mask, threads)
        if q.shape[1] == k.shape[1] and mask is None:
            calls["ONNX Runtime MultiHeadAttention"] = _onnxruntime_heads(q, k, v, causal, threads)
    if "torch" not in missing() and rule:
        calls["FlexAttention"] = _flex(q, k, v, rule, threads)
    if "jax" not in missing():
        calls["JAX"] = _jax(q, k, v, causal, mask)
    if "openvino" not in missing() and q.shape[1] == k.shape[1]:
        calls["OpenVINO"] = _openvino(q, k, v, causal, mask, threads)
    return calls


def _torch(q: Any, k: Any, v: Any, causal: bool, mask: np.ndarray | None, threads: int) -> Call:
    import torch

    torch.set_num_threads(threads)
    tensors = [torch.from_numpy(x) for x in (q, k, v)]
    keep = None if mask is None else torch.from_numpy(mask)
    grouped = q.shape[1] != k.shape[1]
    attend = torch.nn.functional.scaled_dot_product_attention
    return lambda: attend(*tensors, attn_mask=keep, is_causal=causal, enable_gqa=grouped).numpy()


def _flex(q: Any, k: Any, v: Any, rule: Callable[..., Any], threads: int) -> Call:
    import torch
    from torch.nn.attention.flex_attention import create_block_mask, flex_attention

    torch.set_num_threads(threads)
    tensors = [torch.from_numpy(x) for x in (q, k, v)]
    blocks = create_block_mask(lambda b, h, t, s: rule(t, s), None, None, q.shape[2], k.shape[2], device="cpu")
    compiled = torch.compile(flex_attention)
    return lambda: compiled(*tensors, block_mask=blocks).numpy()


def _jax(q: Any, k: Any, v: Any, causal: bool, mask: np.ndarray | None) -> Call:
    import jax

    # Batch, length, heads, width.
    arrays = [jax.device_put(np.ascontiguousarray(x.swapaxes(1, 2))) for x in (q, k, v)]
    keep = None if mask is None else jax.device_put(mask)
    attend = jax.jit(lambda q, k, v: jax.nn.dot_product_attention(q, k, v, mask=keep, is_causal=causal))
    return lambda: np.asarray(attend(*arrays)).swapaxes(1, 2)


def _session(nodes: list[Any], inputs: dict[str, np.ndarray], shape: tuple[int, ...], threads: int) -> Call:
    import onnxruntime
    from onnx import TensorProto, helper

    types = {np.dtype(np.float32): TensorProto.FLOAT, np.dtype(bool): TensorProto.BOOL}
    values = [helper.make_tensor_value_info(name, types[x.dtype], x.shape) for name, x in inputs.items()]
    output = helper.make_tensor_value_info("y", TensorProto.FLOAT, shape)
    graph = helper.make_graph(nodes, "attention", values, [output])
    opsets = [helper.make_opsetid("", 23), helper.make_opsetid("com.microsoft", 1)]
    model = helper.make_model(graph, opset_imports=opsets, ir_version=10)
    options = onnxruntime.SessionOptions()
    options.intra_op_num_threads = threads
    options.inter_op_num_threads = 1
    options.add_session_config_entry("session.force_spinning_stop", "1")
    session = onnxruntime.InferenceSession(model.SerializeToString(), options, providers=["CPUExecutionProvider"])
    return lambda: session.run(None, inputs)[0]


def _onnxruntime(q: Any, k: Any, v: Any, causal: bool, mask: np.ndarray | None, threads: int) -> Call:
    from onnx import helper

    inputs = {"q": q, "k": k, "v": v} | ({} if mask is None else {"mask": mask})
    node = helper.make_node("Attention", list(inputs), ["y"], is_causal=int(causal))
    return _session([node], inputs, (*q.shape[:3], v.shape[3]), threads)


def _onnxruntime_heads(q: Any, k: Any, v: Any, causal: bool, threads: int) -> Call:
    from onnx import helper

    B, H, T, _ = q.shape
    flat = {
        name: np.ascontiguousarray(x.transpose(0, 2, 1, 3)).reshape(B, x.shape[2], -1)
        for name, x in (("q", q), ("k", k), ("v", v))
    }
    node = helper.make_node(
        "MultiHeadAttention", list(flat), ["y"], domain="com.microsoft", num_heads=H, unidirectional=int(causal)
    )
    run = _session([node], flat, flat["q"].shape, threads)
    return lambda: run().reshape(B, T, H, -1).transpose(0, 2, 1, 3)


def _openvino(q: Any, k: Any, v: Any, causal: bool, mask: np.ndarray | None, threads: int) -> Call:
    import openvino
    from openvino import opset13

    arrays = [q, k, v] + ([] if mask is None else [mask])
    inputs = [opset13.parameter(list(x.shape), x.dtype.type) for x in arrays]
    node = opset13.scaled_dot_product_attention(*inputs, causal=causal)
    settings = {"INFERENCE_NUM_THREADS": threads, "INFERENCE_PRECISION_HINT": "f32", "NUM_STREAMS": 1}
    model = openvino.Core().compile_model(openvino.Model([node], inputs, "attention"), "CPU", settings)
    request = model.create_infer_request()
    for i, x in enumerate(arrays):
        request.set_input_tensor(i, openvino.Tensor(x, shared_memory=True))

    def run() -> np.ndarray:
        request.infer()
        return request.get_output_tensor(0).data

    return run
