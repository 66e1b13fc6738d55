"""overt.record on other people's libraries of models: diffusers and timm."""

from __future__ import annotations

import enum
import importlib.machinery
import sys
import types
from collections.abc import Callable
from typing import Any
from unittest import mock

import diffusers
import numpy as np
import pytest
import torch
from diffusers.models.attention_processor import AttnProcessor
from torch import Tensor, nn

import overt
from overt.errors import RecordingError

pytestmark = pytest.mark.filterwarnings("ignore")


def noise(*shape: int) -> Tensor:
    return torch.randn(*shape, generator=torch.Generator().manual_seed(0))


def recorded(model: nn.Module, *args: Any, **options: Any) -> Any:
    """A recording of a run whose output is, to the bit, that without one."""
    with torch.no_grad():
        plain = model(*args, **options)
        with overt.record(model) as rec:
            output = model(*args, **options)
    if isinstance(plain, tuple):
        plain, output = plain[0], output[0]
    assert torch.equal(plain, output)
    for name in rec:
        for seen in rec.calls(name):
            assert seen.deviation < 2e-5
            np.testing.assert_allclose(np.asarray(seen.weights).sum(-1), 1, atol=1e-5)
    return rec


@pytest.mark.parametrize("by_hand", [False, True])
def test_unet(by_hand: bool) -> None:
    torch.manual_seed(0)
    model = diffusers.UNet2DConditionModel(
        sample_size=8,
        in_channels=4,
        out_channels=4,
        down_block_types=("CrossAttnDownBlock2D", "DownBlock2D"),
        up_block_types=("UpBlock2D", "CrossAttnUpBlock2D"),
        block_out_channels=(32, 64),
        cross_attention_dim=32,
        attention_head_dim=8,
        layers_per_block=1,
        norm_num_groups=8,
    ).eval()
    if by_hand:
        model.set_attn_processor(AttnProcessor())
    rec = recorded(model, noise(2, 4, 8, 8), torch.tensor(3), noise(2, 7, 32), return_dict=False)
    first = "down_blocks.0.attentions.0.transformer_blocks.0"
    assert rec[f"{first}.attn1"].weights.shape == (2, 8, 64, 64)
    assert rec[f"{first}.attn2"].weights.shape == (2, 8, 64, 7)
    assert rec[f"{first}.attn1"].way == ("softmax" if by_hand else "sdpa")
    assert rec.without == ["down_blocks.1", "up_blocks.0"]


def test_sd3() -> None:
    torch.manual_seed(0)
    model = diffusers.SD3Transformer2DModel(
        sample_size=8,
        patch_size=2,
        in_channels=4,
        num_layers=2,
        attention_head_dim=8,
        num_attention_heads=4,
        joint_attention_dim=32,
        caption_projection_dim=32,
        pooled_projection_dim=16,
        out_channels=4,
        pos_embed_max_size=16,
    ).eval()
    rec = recorded(model, noise(1, 4, 8, 8), noise(1, 5, 32), noise(1, 16), torch.tensor([3.0]), return_dict=False)
    assert [rec[name].weights.shape for name in rec] == [(1, 4, 21, 21)] * 2


def test_flux() -> None:
    torch.manual_seed(0)
    model = diffusers.FluxTransformer2DModel(
        patch_size=1,
        in_channels=4,
        num_layers=1,
        num_single_layers=1,
        attention_head_dim=16,
        num_attention_heads=2,
        joint_attention_dim=32,
        pooled_projection_dim=16,
        axes_dims_rope=(4, 4, 8),
    ).eval()
    rec = recorded(
        model,
        hidden_states=noise(1, 16, 4),
        encoder_hidden_states=noise(1, 5, 32),
        pooled_projections=noise(1, 16),
        timestep=torch.tensor([1.0]),
        img_ids=torch.zeros(16, 3),
        txt_ids=torch.zeros(5, 3),
        return_dict=False,
    )
    assert len(rec) == 2


def test_a_variational_autoencoder() -> None:
    torch.manual_seed(0)
    encoder = diffusers.AutoencoderKL(block_out_channels=(16,), norm_num_groups=8).eval().encoder
    rec = recorded(encoder, noise(1, 3, 8, 8))
    assert rec["mid_block.attentions.0"].weights.shape == (1, 1, 64, 64)


class _Stub(types.ModuleType):
    """As much of torchvision as timm imports and never calls here; none fits a torch for the CPU."""

    __path__ = ()
    __version__ = "0.28.0"

    def __getattr__(self, name: str) -> Any:
        if name.startswith("__"):
            raise AttributeError(name)
        if name == "InterpolationMode":
            return enum.Enum(name, "NEAREST BILINEAR BICUBIC BOX HAMMING LANCZOS")
        return mock.MagicMock(name=name)


class _Finder:
    def find_spec(self, name: str, path: Any = None, target: Any = None) -> Any:
        own = name.partition(".")[0] == "torchvision"
        return importlib.machinery.ModuleSpec(name, self, is_package=True) if own else None

    def create_module(self, spec: Any) -> Any:
        return _Stub(spec.name)

    def exec_module(self, module: Any) -> None:
        pass


@pytest.fixture(scope="module")
def create() -> Callable[..., nn.Module]:
    """timm.create_model, with random weights."""
    finder = _Finder()
    # Asked last: a real torchvision comes first.
    sys.meta_path.append(finder)
    try:
        import timm
    finally:
        # Nobody else is to take the stand-in for one.
        sys.meta_path.remove(finder)
        for name in [name for name, module in sys.modules.items() if isinstance(module, _Stub)]:
            del sys.modules[name]

    def make(name: str, **options: Any) -> nn.Module:
        torch.manual_seed(0)
        return timm.create_model(name, pretrained=False, **options).eval()

    return make


@pytest.mark.parametrize(
    ("name", "size", "shape"),
    [
        ("vit_tiny_patch16_224", 64, (1, 3, 17, 17)),
        ("swin_tiny_patch4_window7_224", 64, (16, 3, 16, 16)),
        ("swinv2_tiny_window8_256", 64, (16, 3, 16, 16)),
        ("eva02_tiny_patch14_224", 56, (1, 3, 17, 17)),
        ("mvitv2_tiny", 64, (1, 1, 256, 16)),
        ("vit_base_patch16_siglip_224", 64, (1, 12, 16, 16)),
    ],
)
def test_timm(create: Callable[..., nn.Module], name: str, size: int, shape: tuple[int, ...]) -> None:
    window = {"window_size": 4} if "swin" in name else {}
    rec = recorded(create(name, img_size=size, **window), noise(1, 3, size, size))
    assert rec[rec.names[0]].weights.shape == shape


def test_heads_that_talk_to_each_other_are_refused(create: Callable[..., nn.Module]) -> None:
    with pytest.raises(RecordingError, match=r"could not follow 24 .*blocks\.0\.attn: after its softmax, linear"):
        recorded(create("cait_xxs24_224", img_size=64), noise(1, 3, 64, 64))


def test_convolutions_have_no_attention(create: Callable[..., nn.Module]) -> None:
    with pytest.raises(RecordingError, match="nothing was recorded"):
        recorded(create("convnext_atto"), noise(1, 3, 64, 64))
