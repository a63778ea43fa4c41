"""Tables beyond the paper's claims: one question per file, each an `EXPERIMENT` like the claims."""
