"""A collection out of vectors alone: look at them, try what can win, choose, build, measure."""
