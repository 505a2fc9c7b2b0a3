"""Attention's traffic and memory: elements between HBM and SRAM, the score matrix, and other patterns."""

from __future__ import annotations

from ..configs import ModelConfig
from .checks import as_int, require_count
from .memory import dtype_bytes


def score_matrix_bytes(model: ModelConfig, new_tokens: int, cached: int = 0, dtype: str = "bf16") -> int | float:
    """Return the bytes of one layer's scores [H, n, cached + n] if they are stored, for one sequence.

    Raises ValueError for a bad count or an unknown dtype.
    """
    n, past = require_count("new_tokens", new_tokens), require_count("cached", cached)
    return as_int(model.n_heads * n * (past + n) * dtype_bytes(dtype))


def naive_attention_elements(n: int, m: int, head_dim: int) -> int:
    """Count the elements one head moves when the scores are stored: 2*(n + m)*d_h + 4*n*m.

    Three kernels: S = QK^T reads Q and K and writes S; softmax reads S and writes
    P; O = PV reads P and V and writes O (algorithm 0 of Dao et al. 2022, arXiv
    2205.14135). A mask kernel of its own would add 2*n*m. Raises ValueError for a
    count below 1.
    """
    n, m, d = (require_count(name, x, minimum=1) for name, x in (("n", n), ("m", m), ("head_dim", head_dim)))
    return 2 * (n + m) * d + 4 * n * m


def tile_counts(n: int, m: int, block_q: int, block_k: int, causal: bool = True) -> tuple[int, int]:
    """Count the tiles of one head: (computed, skipped); the queries are the last n of the m keys.

    Raises ValueError for a count below 1, and for causal with n > m.
    """
    for name, x in (("n", n), ("m", m), ("block_q", block_q), ("block_k", block_k)):
        require_count(name, x, minimum=1)
    if causal and n > m:
        raise ValueError(f"causal with n={n} queries and m={m} keys: n must not exceed m")
    ends = (min(first + block_q, n) for first in range(0, n, block_q))
    computed = sum(-(-(m - n + end if causal else m) // block_k) for end in ends)
    return computed, -(-n // block_q) * -(-m // block_k) - computed


def tiled_attention_elements(n: int, m: int, head_dim: int, block_q: int) -> int:
    """Count the elements one head moves in the tiled form without a mask: 2*n*d_h + ceil(n / block_q)*2*m*d_h.

    Q is read and O written once; every block of queries reads all of K and V.
    block_k does not enter. Raises ValueError for a count below 1.
    """
    for name, x in (("n", n), ("m", m), ("head_dim", head_dim), ("block_q", block_q)):
        require_count(name, x, minimum=1)
    return 2 * n * head_dim + -(-n // block_q) * 2 * m * head_dim


def sram_elements(block_q: int, block_k: int, head_dim: int) -> int:
    """Count the elements one tile needs at once: Q and O blocks, K and V tiles, scores, two numbers per row.

    Raises ValueError for a count below 1.
    """
    for name, x in (("block_q", block_q), ("block_k", block_k), ("head_dim", head_dim)):
        require_count(name, x, minimum=1)
    return 2 * block_q * head_dim + 2 * block_k * head_dim + block_q * block_k + 2 * block_q


def window_pairs(new_tokens: int, window: int) -> int:
    """Count the pairs (query, key) of a prompt when a token sees itself and the window - 1 tokens before it.

    Raises ValueError for a negative prompt or a window below 1.
    """
    n, w = require_count("new_tokens", new_tokens), require_count("window", window, minimum=1)
    full = min(n, w)
    return full * (full + 1) // 2 + (n - full) * w


def linear_attention_flops(model: ModelConfig, new_tokens: int) -> int:
    """Count the FLOPs of linear attention's state, over all layers: 4*L*H*d_h^2 per token, whatever the context.

    A head keeps a d_h x d_h matrix: adding k v^T takes 2*d_h^2, reading it with q
    2*d_h^2 (Katharopoulos et al. 2020, arXiv 2006.16236, with a feature map as wide
    as the head; its normaliser is left out). Raises ValueError for a bad count.
    """
    return 4 * model.n_layers * model.n_heads * model.head_dim**2 * require_count("new_tokens", new_tokens)
