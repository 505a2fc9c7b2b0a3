"""Quantization: fewer bits for weights, activations, K and V; what it costs in accuracy, and the bytes it leaves.

integers and floats store numbers, kv caches K and V, layers quantizes a decoder,
migration rescales channels, gptq feeds errors on, evaluation compares.
"""

from .evaluation import Score, log_probs, score
from .floats import E2M1, E4M3, E5M2, FloatFormat, Floats, fp8, mxfp4, nvfp4, pack_fp4, unpack_fp4
from .gptq import gptq
from .integers import Integers, PackedInt4, Stored, absmax, affine, int4, pack4, unpack4
from .kv import CODERS, QuantizedCache, per_channel, per_token
from .layers import Inputs, Int8Linear, calibrate, matrices, with_int8, with_weights
from .migration import awq, output_error, plant, plant_keys, rescale, smooth, smooth_scales

__all__ = [
    "CODERS", "E2M1", "E4M3", "E5M2", "FloatFormat", "Floats", "Inputs", "Int8Linear", "Integers", "PackedInt4",
    "QuantizedCache", "Score", "Stored", "absmax", "affine", "awq", "calibrate", "fp8", "gptq", "int4", "log_probs",
    "matrices", "mxfp4", "nvfp4", "output_error", "pack4", "pack_fp4", "per_channel", "per_token", "plant",
    "plant_keys", "rescale", "score", "smooth", "smooth_scales", "unpack4", "unpack_fp4", "with_int8", "with_weights",
]
