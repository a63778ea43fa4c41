"""Several collections of one model, searched as one; rows divided among them anew."""
