"""The model of the paper, equation by equation."""
