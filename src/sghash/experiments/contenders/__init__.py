"""Ways to search that are compared at equal bytes: ours in `own`, other packages' in `others`."""
