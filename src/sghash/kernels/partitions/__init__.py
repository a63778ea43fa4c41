"""Lists of codes in turned blocks of 64: coarse scores, scans, shortlists, in one compiled call."""
