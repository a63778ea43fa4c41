"""Inner loops of training: steps, ranking losses, projections, clusters, descents over codes."""
