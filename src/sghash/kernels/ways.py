"""Which way the compiled kernels go on this machine, for people who wonder why it is slow."""

from __future__ import annotations


def ways() -> dict[str, str]:
    """Return what each kind of kernel uses of this CPU; loads Numba, compiles nothing.

    Every way gives the same answers; the plain ones are compiled too, and take longer.
    """
    from sghash.kernels.lanes import VECTOR_BYTES
    from sghash.kernels.partitions.block_lanes import BYTES_AVAILABLE, HALVES_AVAILABLE
    from sghash.kernels.tables.byte_lanes import ROWS_AVAILABLE
    from sghash.kernels.tables.nibbles import AVAILABLE

    plain = "plain loops"
    return {
        "Hamming distances": f"vectors of {8 * VECTOR_BYTES} bits",
        "tables of bits": "shuffles (AVX2)" if AVAILABLE else plain,
        "tables of bytes": "shuffles (AVX-512 VBMI)" if ROWS_AVAILABLE else "by groups of queries",
        "lists of bits": "shuffles (AVX2)" if HALVES_AVAILABLE else plain,
        "lists of bytes": "shuffles (AVX-512 VBMI)" if BYTES_AVAILABLE else plain,
    }
