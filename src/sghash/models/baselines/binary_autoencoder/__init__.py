"""The binary autoencoder, by the method of auxiliary coordinates."""

from __future__ import annotations

from sghash.models.baselines.binary_autoencoder.estimator import BinaryAutoencoder

__all__ = ["BinaryAutoencoder"]
