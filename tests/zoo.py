"""Architectures of transformers as tiny random models: what overt.record must see the inside of."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import torch
import transformers

T = 24
_IDS = torch.randint(3, 90, (2, T), generator=torch.Generator().manual_seed(1))
_LEFT, _RIGHT = torch.ones_like(_IDS), torch.ones_like(_IDS)
_LEFT[1, :7] = 0
_RIGHT[1, -7:] = 0


def _noise(seed: int, *shape: int) -> torch.Tensor:
    return torch.randn(*shape, generator=torch.Generator().manual_seed(seed))


def decoder(padding: torch.Tensor = _LEFT) -> dict[str, Any]:
    return {"input_ids": _IDS, "attention_mask": padding}


def encoder() -> dict[str, Any]:
    return decoder(_RIGHT)


def both() -> dict[str, Any]:
    return {**encoder(), "decoder_input_ids": _IDS[:, :9]}


def image() -> dict[str, Any]:
    return {"pixel_values": _noise(2, 2, 3, 32, 32)}


def text_and_image() -> dict[str, Any]:
    return {**encoder(), **image()}


def speech() -> dict[str, Any]:
    return {"input_features": _noise(3, 2, 80, 60), "decoder_input_ids": _IDS[:, :9]}


def sound() -> dict[str, Any]:
    return {"input_values": _noise(3, 2, 800)}


def queries() -> dict[str, Any]:
    return {"query_embeds": _noise(4, 2, 6, 32), "encoder_hidden_states": _noise(5, 2, 10, 32)}


def anything() -> dict[str, Any]:
    return {"inputs": _noise(5, 2, 20, 32)}


def ids_only() -> dict[str, Any]:
    return {"input_ids": _IDS}


def text_with_image() -> dict[str, Any]:
    ids = torch.cat([torch.tensor([[5, 151, 150, 150, 150, 150, 152]]), torch.arange(6, 16)[None]], 1)
    return {
        "input_ids": ids,
        "attention_mask": torch.ones_like(ids),
        "pixel_values": _noise(6, 16, 3 * 2 * 4 * 4),
        "image_grid_thw": torch.tensor([[1, 4, 4]]),
        "mm_token_type_ids": (ids == 150).long(),
    }


@dataclass(frozen=True)
class Species:
    """One architecture: its name in transformers, the configuration of a tiny model, and what it reads."""

    name: str
    config: dict[str, Any]
    inputs: Callable[[], dict[str, Any]]
    model: str = "Model"

    def build(self) -> Any:
        torch.manual_seed(0)
        config = getattr(transformers, f"{self.name}Config")(**self.config)
        model = getattr(transformers, f"{self.name}{self.model}")(config).eval()
        with torch.no_grad():
            for name, p in model.named_parameters():
                # Heads that look somewhere.
                if p.ndim > 1:
                    p.copy_(torch.randn_like(p) * 0.25)
                elif "sinks" in name:
                    p.copy_(torch.randn_like(p))
        return model


TEXT = {
    "vocab_size": 100, "hidden_size": 32, "num_hidden_layers": 2, "num_attention_heads": 4, "intermediate_size": 48,
    "max_position_embeddings": 64, "pad_token_id": 0,
}  # fmt: skip
GROUPED = {**TEXT, "num_key_value_heads": 2}
WIDE = {**GROUPED, "head_dim": 8}
EXPERTS = {"num_experts": 4, "num_experts_per_tok": 2, "moe_intermediate_size": 16}
PICTURE = {
    "hidden_size": 32, "num_hidden_layers": 2, "num_attention_heads": 4, "intermediate_size": 48, "image_size": 32,
    "patch_size": 8,
}  # fmt: skip
GPT = {"vocab_size": 100, "n_embd": 32, "n_layer": 2, "n_head": 4, "n_positions": 64}
BART = {
    "vocab_size": 100, "d_model": 32, "encoder_layers": 2, "decoder_layers": 2, "encoder_attention_heads": 4,
    "decoder_attention_heads": 4, "encoder_ffn_dim": 48, "decoder_ffn_dim": 48, "max_position_embeddings": 64,
    "pad_token_id": 0, "bos_token_id": 1, "eos_token_id": 2, "decoder_start_token_id": 1,
}  # fmt: skip
T5 = {
    "vocab_size": 100, "d_model": 32, "d_kv": 8, "d_ff": 48, "num_layers": 2, "num_heads": 4, "pad_token_id": 0,
    "decoder_start_token_id": 0,
}  # fmt: skip
SOUND = {
    "hidden_size": 32, "num_hidden_layers": 2, "num_attention_heads": 4, "intermediate_size": 48, "conv_dim": [16] * 3,
    "conv_stride": [5, 2, 2], "conv_kernel": [10, 3, 3], "num_conv_pos_embeddings": 16,
    "num_conv_pos_embedding_groups": 2, "mask_time_prob": 0.0,
}  # fmt: skip
DEEPSEEK = {
    **TEXT, "num_key_value_heads": 4, "q_lora_rank": 16, "kv_lora_rank": 16, "qk_rope_head_dim": 8,
    "qk_nope_head_dim": 8, "v_head_dim": 12, "n_routed_experts": 4, "num_experts_per_tok": 2, "n_group": 1,
    "topk_group": 1, "first_k_dense_replace": 1, "moe_intermediate_size": 16, "n_shared_experts": 1,
}  # fmt: skip
FALCON = {"vocab_size": 100, "hidden_size": 32, "num_hidden_layers": 2, "num_attention_heads": 4}
QWEN_TEXT = {
    "vocab_size": 200, "hidden_size": 32, "num_hidden_layers": 2, "num_attention_heads": 4, "num_key_value_heads": 2,
    "intermediate_size": 48, "max_position_embeddings": 256,
    "rope_parameters": {"rope_type": "default", "mrope_section": [1, 1, 2], "rope_theta": 1e4},
}  # fmt: skip
QWEN_VISION = {
    "depth": 2, "embed_dim": 32, "hidden_size": 32, "num_heads": 4, "mlp_ratio": 2, "patch_size": 4,
    "spatial_merge_size": 2, "temporal_patch_size": 2, "in_channels": 3,
}  # fmt: skip
JAMBA = {
    **GROUPED, "num_hidden_layers": 4, "attn_layer_period": 2, "attn_layer_offset": 1, "expert_layer_period": 2,
    "expert_layer_offset": 1, "num_experts": 2, "num_experts_per_tok": 1, "use_mamba_kernels": False,
    "mamba_d_state": 4, "mamba_dt_rank": 4,
}  # fmt: skip
QWEN3_NEXT = {
    **WIDE, **EXPERTS, "num_hidden_layers": 4, "linear_num_value_heads": 4, "linear_num_key_heads": 2,
    "linear_key_head_dim": 8, "linear_value_head_dim": 8, "shared_expert_intermediate_size": 16,
}  # fmt: skip
MODERN = {
    **TEXT, "global_attn_every_n_layers": 2, "local_attention": 8, "num_hidden_layers": 4, "cls_token_id": 1,
    "sep_token_id": 2, "bos_token_id": 1, "eos_token_id": 2,
}  # fmt: skip

ZOO = {
    "llama": Species("Llama", GROUPED, decoder),
    "mistral": Species("Mistral", {**GROUPED, "sliding_window": 8}, decoder),
    "qwen2": Species("Qwen2", GROUPED, decoder),
    "qwen3": Species("Qwen3", WIDE, decoder),
    "gemma2": Species(
        "Gemma2",
        {**WIDE, "sliding_window": 8, "attn_logit_softcapping": 2.0, "query_pre_attn_scalar": 8},
        decoder,
    ),
    "gemma3": Species("Gemma3Text", {**WIDE, "sliding_window": 8, "num_hidden_layers": 6}, decoder),
    "gpt-oss": Species(
        "GptOss", {**WIDE, "sliding_window": 8, "num_local_experts": 4, "num_experts_per_tok": 2}, decoder
    ),
    "deepseek-v3": Species("DeepseekV3", DEEPSEEK, decoder),
    "mixtral": Species("Mixtral", {**GROUPED, "num_local_experts": 4}, decoder),
    "phi3": Species("Phi3", GROUPED, decoder),
    "granite": Species("Granite", {**GROUPED, "attention_multiplier": 0.2}, decoder),
    "cohere2": Species("Cohere2", {**GROUPED, "sliding_window": 8, "num_hidden_layers": 4}, decoder),
    "olmo2": Species("Olmo2", GROUPED, decoder),
    "gpt2": Species("GPT2", {**GPT, "scale_attn_by_inverse_layer_idx": True}, decoder),
    "gpt-neox": Species("GPTNeoX", TEXT, decoder),
    "opt": Species(
        "OPT",
        {k: v for k, v in TEXT.items() if k != "intermediate_size"} | {"ffn_dim": 48, "word_embed_proj_dim": 32},
        decoder,
    ),
    "bloom": Species("Bloom", {"vocab_size": 100, "hidden_size": 32, "n_layer": 2, "n_head": 4}, decoder),
    "mpt": Species("Mpt", {"vocab_size": 100, "d_model": 32, "n_layers": 2, "n_heads": 4, "max_seq_len": 64}, decoder),
    "falcon": Species(
        "Falcon", {**FALCON, "new_decoder_architecture": False, "multi_query": True, "alibi": False}, decoder
    ),
    "falcon-alibi": Species("Falcon", {**FALCON, "alibi": True}, decoder),
    "gptj": Species("GPTJ", {**GPT, "rotary_dim": 4}, decoder),
    "gpt-neo": Species(
        "GPTNeo",
        {
            "vocab_size": 100, "hidden_size": 32, "num_layers": 2, "num_heads": 4, "window_size": 8,
            "attention_types": [[["global", "local"], 1]], "max_position_embeddings": 64,
        },
        decoder,
    ),
    "bert": Species("Bert", TEXT, encoder),
    "roberta": Species("Roberta", {**TEXT, "max_position_embeddings": 80}, encoder),
    "distilbert": Species(
        "DistilBert",
        {"vocab_size": 100, "dim": 32, "n_layers": 2, "n_heads": 4, "hidden_dim": 48, "max_position_embeddings": 64},
        encoder,
    ),
    "modernbert": Species("ModernBert", MODERN, encoder),
    "deberta-v2": Species("DebertaV2", {**TEXT, "relative_attention": True, "pos_att_type": "p2c|c2p"}, encoder),
    "electra": Species("Electra", {**TEXT, "embedding_size": 32}, encoder),
    "albert": Species("Albert", {**TEXT, "embedding_size": 32}, encoder),
    "xlnet": Species("XLNet", {"vocab_size": 100, "d_model": 32, "n_layer": 2, "n_head": 4, "d_inner": 48}, encoder),
    "mpnet": Species("MPNet", TEXT, encoder),
    "longformer": Species("Longformer", {**TEXT, "attention_window": 8, "max_position_embeddings": 80}, encoder),
    "esm": Species("Esm", {**TEXT, "position_embedding_type": "rotary", "mask_token_id": 4}, encoder),
    "funnel": Species(
        "Funnel",
        {
            "vocab_size": 100, "block_sizes": [1, 1], "d_model": 32, "n_head": 4, "d_head": 8, "d_inner": 48,
            "num_decoder_layers": 1,
        },
        encoder,
    ),
    "t5": Species("T5", T5, both),
    "longt5": Species("LongT5", {**T5, "local_radius": 4, "encoder_attention_type": "local"}, both),
    "umt5": Species("UMT5", T5, both),
    "bart": Species("Bart", BART, both),
    "marian": Species("Marian", BART, both),
    "pegasus": Species("Pegasus", BART, both),
    "m2m100": Species("M2M100", BART, both),
    "whisper": Species(
        "Whisper", {**BART, "max_source_positions": 30, "max_target_positions": 64, "num_mel_bins": 80}, speech
    ),
    "wav2vec2": Species("Wav2Vec2", SOUND, sound),
    "wavlm": Species("WavLM", SOUND, sound),
    "vit": Species("ViT", PICTURE, image),
    "deit": Species("DeiT", PICTURE, image),
    "dinov2": Species("Dinov2", PICTURE, image),
    "dinov3": Species("DINOv3ViT", PICTURE, image),
    "beit": Species("Beit", {**PICTURE, "use_relative_position_bias": True}, image),
    "siglip": Species("SiglipVision", PICTURE, image),
    "swin": Species(
        "Swin",
        {"image_size": 32, "patch_size": 4, "embed_dim": 16, "depths": [2, 1], "num_heads": [2, 4], "window_size": 4},
        image,
    ),
    "clip": Species(
        "CLIP",
        {
            "text_config": {**TEXT, "eos_token_id": 2, "bos_token_id": 1},
            "vision_config": PICTURE,
            "projection_dim": 16,
        },
        text_and_image,
    ),
    "blip-2": Species(
        "Blip2QFormer", {**TEXT, "encoder_hidden_size": 32, "cross_attention_frequency": 1}, queries
    ),
    "perceiver": Species(
        "Perceiver",
        {
            "num_latents": 8, "d_latents": 32, "d_model": 32, "num_blocks": 1, "num_self_attends_per_block": 2,
            "num_self_attention_heads": 4, "num_cross_attention_heads": 4,
        },
        anything,
    ),
    "jamba": Species("Jamba", JAMBA, decoder),
    "mamba": Species(
        "Mamba", {"vocab_size": 100, "hidden_size": 32, "num_hidden_layers": 2, "state_size": 4}, ids_only
    ),
    "qwen3-next": Species("Qwen3Next", QWEN3_NEXT, decoder),
    "qwen2-vl": Species(
        "Qwen2VL",
        {
            "text_config": QWEN_TEXT, "vision_config": QWEN_VISION, "image_token_id": 150,
            "vision_start_token_id": 151, "vision_end_token_id": 152, "video_token_id": 153,
        },
        text_with_image,
    ),
}  # fmt: skip

# Others, which the list was not made with.
OTHERS = {
    "stablelm": Species("StableLm", GROUPED, decoder),
    "phi": Species("Phi", GROUPED, decoder),
    "starcoder2": Species("Starcoder2", GROUPED, decoder),
    "gemma": Species("Gemma", WIDE, decoder),
    "qwen3-moe": Species("Qwen3Moe", {**WIDE, **EXPERTS}, decoder),
    "persimmon": Species("Persimmon", TEXT, decoder),
    "codegen": Species("CodeGen", {**GPT, "rotary_dim": 4}, decoder),
    "biogpt": Species("BioGpt", TEXT, decoder),
    "smollm3": Species("SmolLM3", GROUPED, decoder),
    "glm4": Species("Glm4", WIDE, decoder),
    "deberta": Species("Deberta", {**TEXT, "relative_attention": True, "pos_att_type": ["c2p", "p2c"]}, encoder),
    "rembert": Species("RemBert", {**TEXT, "input_embedding_size": 16, "output_embedding_size": 16}, encoder),
    "vit-msn": Species("ViTMSN", PICTURE, image),
    "mvp": Species("Mvp", BART, both),
    "hubert": Species("Hubert", SOUND, sound),
    "led": Species(
        "LED",
        {**BART, "attention_window": 8, "max_encoder_position_embeddings": 64, "max_decoder_position_embeddings": 64},
        both,
    ),
    "fnet": Species("FNet", TEXT, ids_only),
    "nemotron": Species("Nemotron", GROUPED, decoder),
    "olmoe": Species("Olmoe", {**GROUPED, "num_experts": 4, "num_experts_per_tok": 2}, decoder),
    "helium": Species("Helium", WIDE, decoder),
    "exaone4": Species("Exaone4", {**WIDE, "sliding_window": 8, "sliding_window_pattern": 2}, decoder),
    "recurrent-gemma": Species(
        "RecurrentGemma", {**WIDE, "attention_window_size": 8, "lru_width": 32, "num_hidden_layers": 3}, decoder
    ),
    "xglm": Species(
        "XGLM",
        {
            "vocab_size": 100,
            "d_model": 32,
            "num_layers": 2,
            "attention_heads": 4,
            "ffn_dim": 48,
            "max_position_embeddings": 64,
            "pad_token_id": 0,
        },
        decoder,
    ),
    "convbert": Species("ConvBert", {**TEXT, "embedding_size": 32, "head_ratio": 2, "conv_kernel_size": 3}, encoder),
    "canine": Species(
        "Canine",
        {
            **TEXT,
            "local_transformer_stride": 8,
            "num_hash_buckets": 32,
            "downsampling_rate": 4,
            "upsampling_kernel_size": 4,
        },
        encoder,
    ),
    "roformer": Species("RoFormer", {**TEXT, "embedding_size": 32}, encoder),
    "segformer": Species(
        "Segformer",
        {
            "depths": [1, 1],
            "num_encoder_blocks": 2,
            "sr_ratios": [2, 1],
            "hidden_sizes": [16, 32],
            "num_attention_heads": [2, 4],
            "patch_sizes": [7, 3],
            "strides": [4, 2],
            "mlp_ratios": [2, 2],
        },
        image,
    ),
    "swinv2": Species(
        "Swinv2",
        {"image_size": 32, "patch_size": 4, "embed_dim": 16, "depths": [2, 1], "num_heads": [2, 4], "window_size": 4},
        image,
    ),
    "nystromformer": Species("Nystromformer", {**TEXT, "segment_means_seq_len": T, "num_landmarks": 4}, ids_only),
    "bigbird": Species(
        "BigBird", {**TEXT, "attention_type": "block_sparse", "block_size": 2, "num_random_blocks": 1}, ids_only
    ),
    "reformer": Species(
        "Reformer",
        {
            "vocab_size": 100,
            "hidden_size": 32,
            "attention_head_size": 8,
            "num_attention_heads": 4,
            "attn_layers": ["local", "lsh"],
            "local_attn_chunk_length": 4,
            "lsh_attn_chunk_length": 4,
            "axial_pos_embds": False,
            "feed_forward_size": 48,
            "max_position_embeddings": 64,
            "num_buckets": 4,
            "is_decoder": False,
        },
        encoder,
    ),
    "yoso": Species("Yoso", {**TEXT, "use_expectation": True}, encoder),
    "mamba2": Species(
        "Mamba2",
        {
            "vocab_size": 100,
            "hidden_size": 32,
            "num_hidden_layers": 2,
            "state_size": 4,
            "num_heads": 4,
            "head_dim": 16,
            "n_groups": 1,
        },
        ids_only,
    ),
    "rwkv": Species("Rwkv", {"vocab_size": 100, "hidden_size": 32, "num_hidden_layers": 2}, ids_only),
}
