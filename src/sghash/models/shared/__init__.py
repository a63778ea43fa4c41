"""What several models need: principal axes, least squares, work by blocks, k-means."""
