"""Algorithm 1 and what it needs: batches, units, a start, a step, an optimizer."""
