"""The same verbs where others keep codes and compute: one partner per file, each an extra."""
