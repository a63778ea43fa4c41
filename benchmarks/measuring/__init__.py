"""What the benchmarks of training share: data, fits, ratios, targets."""
